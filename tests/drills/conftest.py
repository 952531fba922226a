"""The production layout, started once for all tests that leave it as it is."""

import secrets

import pytest

from tests.drills.layout import layout, layout_without_webs

FAILURES = 30  # a minute: more than the other tests cause


@pytest.fixture(scope="package")
def served():
    token = secrets.token_hex(32)
    with layout(LIMIT_FAILURES=f"{FAILURES}/minute", METRICS_TOKEN=token, PATIENCE="on") as served:
        yield served


@pytest.fixture(scope="package")
def alone():
    with layout_without_webs() as alone:
        yield alone
