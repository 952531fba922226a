"""The Redis of the suite, where TEST_REDIS_URL names one: a database of it for each worker.

Ids recur between the workers' own SQL databases; counted in one place they would meet.
"""

import os
from urllib.parse import urlsplit

DATABASES = 16  # what Redis has unless it was told otherwise


def _of_this_worker(url: str) -> str:
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    parts = urlsplit(url)
    first = int(parts.path.strip("/") or 0)
    return parts._replace(path=f"/{(first - worker) % DATABASES}").geturl()


given = os.environ.get("TEST_REDIS_URL", "")
URL = _of_this_worker(given) if given else ""
