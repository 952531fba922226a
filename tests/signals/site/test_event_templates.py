"""Each kind of event has a template that says it to the owner of a desk."""

from pathlib import Path

import pytest

from events.kinds import Kind

pytestmark = pytest.mark.once

FOLDER = Path(__file__).parents[3] / "templates" / "events"
SHARED = {"bot", "changed", "expected", "list", "webhook", "where"}


def test_each_kind_has_its_template_and_no_other_kind_has_one():
    names = {path.name.removesuffix(".html") for path in FOLDER.iterdir()}
    assert names - SHARED == set(Kind.values)
