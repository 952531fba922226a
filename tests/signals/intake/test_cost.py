"""A fan-out takes the same SQL statements for ten desks and for ten thousand."""

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.crowd import a_crowd
from tests.factories import a_platform_token, a_ready_desk

pytestmark = pytest.mark.django_db


def fan_out(client: Client, nonce: str) -> Any:
    body = {"pair": "BTC/USDT", "direction": "long", "elected": True, "source": "floor"}
    return client.post(
        "/api/hooks/signal",
        body | {"fanout": True, "nonce": nonce},
        content_type="application/json",
    )


def statements(client: Client, nonce: str) -> tuple[list[str], dict[str, Any]]:
    """The SQL statements of one fan-out, without their values, and its response."""
    fan_out(client, f"{nonce}-before")  # reads the token and notes its use, once a minute
    with CaptureQueriesContext(connection) as captured:
        answer = fan_out(client, nonce)
    return [re.sub(r"'[^']*'|\d+", "?", query["sql"]) for query in captured], answer.json()


def test_a_fan_out_to_ten_thousand_desks_issues_the_statements_of_one_to_ten(card):
    for _ in range(10):
        a_ready_desk(card)
    client = Client(headers={"Authorization": f"Bearer {a_platform_token()}"})
    few, answer = statements(client, "few")
    assert answer["filled"] == 10
    a_crowd(card, 10_000)
    many, answer = statements(client, "many")
    assert answer["filled"] == 10_010
    assert many == few
    assert len(few) <= 12

    page = client.get(f"{answer['desks']}&limit=1000").json()
    assert len(page["desks"]) == 1000
    assert page["next"] is not None
