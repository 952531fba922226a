"""A fan-out takes the same SQL statements for ten desks and for ten thousand."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.client import get, push
from tests.crowd import a_crowd
from tests.factories import a_ready_desk
from tests.signals.bodies import fanout

pytestmark = pytest.mark.django_db


def fan_out(engine):
    """The SQL statements of one fan-out, without their values, and its response."""
    push(fanout(), engine)  # reads the token and notes its use, once a minute
    with CaptureQueriesContext(connection) as captured:
        answer = push(fanout(), engine)
    return [re.sub(r"'[^']*'|\d+", "?", query["sql"]) for query in captured], answer.json()


def test_a_fan_out_to_ten_thousand_desks_issues_the_statements_of_one_to_ten(card, engine):
    for _ in range(10):
        a_ready_desk(card)
    few, answer = fan_out(engine)
    assert answer["filled"] == 10
    a_crowd(card, 10_000)
    many, answer = fan_out(engine)
    assert answer["filled"] == 10_010
    assert many == few
    assert len(few) <= 12
    page = get(f"{answer['desks']}&limit=1000", engine).json()
    assert len(page["desks"]) == 1000
    assert page["next"] is not None
