"""GET /api/docs: who gets it, its header, its order, and what it loads."""

import re

import pytest

from config.openapi.responses import TAGS
from tests import client
from tests.config.test_pages import inline
from tests.factories import a_desk
from tests.pages import source

pytestmark = [pytest.mark.django_db, pytest.mark.once]

DOCS = "/api/docs"
SIZE = 200_000  # bytes of the page, uncompressed


def test_everybody_may_read_it():
    answer = client.get(DOCS)
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert answer.headers["Cache-Control"] == "no-store"
    assert len(answer.content) < SIZE


def test_it_has_the_header_of_the_visitor():
    assert 'href="/accounts/login/"' in source(client.get(DOCS))
    assert 'href="/webhooks"' in source(client.signed_in(a_desk().user).get(DOCS))


def test_signals_come_first_and_groups_are_in_the_documents_order():
    names = re.findall(r'<section id="tag-(\w+)">', source(client.get(DOCS)))
    assert names == list(TAGS)
    assert names[:4] == ["Signals", "Desks", "Events", "Tokens"]
    document = client.get("/api/schema").json()
    assert [tag["name"] for tag in document["tags"]] == names
    of_paths = [next(iter(methods.values()))["tags"][0] for methods in document["paths"].values()]
    assert of_paths == sorted(of_paths, key=names.index)


def test_it_loads_no_script_and_no_style_of_its_own_and_nothing_from_elsewhere():
    answer = client.get(DOCS)
    assert inline(answer) == []
    assert re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="(?!/static/)', source(answer)) == []
