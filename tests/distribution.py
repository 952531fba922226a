"""Which tests a worker of xdist runs one after the other, and which make quick leaves out.

A folder's fixtures start its servers in each worker that runs one of its files. So one worker runs
the files that share the most expensive ones.
"""

from xdist.scheduler import LoadFileScheduling

# The beginnings of their paths. The longest comes first: it is started first.
TOGETHER = (
    "tests/browser/",
    "tests/conformance/",
    "tests/drills/test_layout",
    "tests/signals/contract/test_relay",
)


# Accounts, control area and site: most of what shows pages. It takes the longest of what needs no
# server, so make quick leaves it out.
PAGES = ("tests/config/accounts/", "tests/signals/control/", "tests/signals/site/")

# The files that share the servers of tests/config/conftest.py.
WITH_WEB = (
    "tests/config/live/test_live",
    "tests/config/openapi/test_generated_client",
    "tests/config/server/test_framing",
    "tests/config/test_files",
    "tests/config/test_logging_setup",
    "tests/config/test_metrics",
    "tests/config/test_readme",
)


def unit_of(file: str) -> str:
    """The unit of work to which the tests of a file belong."""
    if file.startswith(WITH_WEB):
        return WITH_WEB[0]
    return next((shared for shared in TOGETHER if file.startswith(shared)), file)


class Distribution(LoadFileScheduling):
    """Hands out units of work instead of files.

    xdist has no public name for this difference of its own schedulers.
    """

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(super()._split_scope(nodeid))
