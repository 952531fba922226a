"""GET /api/docs: what its page brings."""

import re

import pytest

from tests import client

pytestmark = pytest.mark.once

DOCS = "/api/docs"


def test_everybody_may_read_it(db):
    answer = client.get(DOCS)
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert answer.headers["Cache-Control"] == "no-store"


def test_it_brings_no_script_and_no_style_of_its_own_and_nothing_from_elsewhere(db):
    page = client.get(DOCS).content.decode()
    assert "<style" not in page
    assert not re.search(r"\sstyle=|\son[a-z]+=", page)
    assert all(" src=" in script for script in re.findall(r"<script[^>]*>", page))
    assert re.findall(r'(?:src|href)="(?:https?:)?//', page) == []
