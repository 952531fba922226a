"""The contract's tests against the production's layout: what nginx says counts as the service's.

    TEST_DATABASE_URL=… TEST_REDIS_URL=… python -m tests.drills.layout_conformance

Over plain HTTP as the suite's own servers are, then over TLS as a production is, with HTTPS and the
staff's second factor required and a Nox secret. Exits with 1 where a test fails.
"""

import json
import os
import subprocess
import sys

from tests.drills.layout import Layout, layout
from tests.server import ROOT

TESTS = "tests/conformance"
PYTEST = (sys.executable, "-m", "pytest", "-n0", "-q", "-p", "no:randomly", "-c", os.devnull)
AS_IN_PRODUCTION = {"REQUIRE_HTTPS": "on", "REQUIRE_STAFF_MFA": "on"}


def main() -> int:
    """Runs both; prints what pytest says."""
    with layout() as found:
        plain = conformance(found, found.http)
    with layout(over_tls=True, nox=True, **AS_IN_PRODUCTION) as found:
        return plain or conformance(found, found.https)


def conformance(found: Layout, address: str) -> int:
    """The exit status of the suite, told no more than the address and what the seeding printed."""
    print(f"{TESTS} against {address}", flush=True)
    certificate = found.folder / "tls" / "certificate.pem"
    given = {
        "PATH": os.environ["PATH"],
        "BASE_URL": address,
        "SEED_JSON": json.dumps(found.webs[0].seed),
        "SSL_CERT_FILE": str(certificate),
    }
    command = (*PYTEST, "--rootdir", TESTS, "--confcutdir", TESTS, *sys.argv[1:], TESTS)
    return subprocess.run(command, cwd=ROOT, env=given, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
