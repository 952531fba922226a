"""The Redis URL of the test suite, from TEST_REDIS_URL: one Redis database for each xdist worker.

Each worker has its own SQL database, so the same ids occur in several workers. Their counters would
collide in one Redis database.
"""

import os
from urllib.parse import urlsplit

DATABASES = 16  # the default of Redis


def _of_this_worker(url: str) -> str:
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    parts = urlsplit(url)
    first = int(parts.path.strip("/") or 0)
    return parts._replace(path=f"/{(first - worker) % DATABASES}").geturl()


_url = os.environ.get("TEST_REDIS_URL", "")
URL = _of_this_worker(_url) if _url else ""
