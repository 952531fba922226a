"""Runs the conformance suite against the production layout: nginx, two web servers, a live server.

    TEST_DATABASE_URL=… TEST_REDIS_URL=… python -m tests.drills.layout_conformance

Over TLS, with REQUIRE_HTTPS and REQUIRE_STAFF_MFA on and a Nox secret. Arguments are passed to
pytest instead of the folder of the suite. The exit status is 1 if a test fails.
"""

import json
import os
import subprocess
import sys
from typing import Any

from tests.drills.layout import Layout, layout
from tests.server import ROOT

TESTS = "tests/conformance"
PYTEST = (sys.executable, "-m", "pytest", "-n0", "-q", "-p", "no:randomly", "-c", os.devnull)
AS_IN_PRODUCTION: Any = {"REQUIRE_HTTPS": "on", "REQUIRE_STAFF_MFA": "on"}


def main() -> int:
    """Runs the suite, or what the arguments choose of it, and returns its exit status."""
    with layout(over_tls=True, nox=True, **AS_IN_PRODUCTION) as served:
        return conformance(served, *sys.argv[1:])


def conformance(served: Layout, *arguments: str) -> int:
    print(f"{TESTS} against {served.https}", flush=True)
    certificate = served.folder / "tls" / "certificate.pem"
    workers = sum(int(web.environment["WEB_CONCURRENCY"]) for web in served.webs)
    environment = {
        "PATH": os.environ["PATH"],
        "BASE_URL": served.https,
        "SEED_JSON": json.dumps(served.webs[0].seed),
        "SSL_CERT_FILE": str(certificate),
        "WORKERS": str(workers),
    }
    command = (*PYTEST, "--rootdir", TESTS, "--confcutdir", TESTS, *(arguments or (TESTS,)))
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
