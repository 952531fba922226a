"""How PostgreSQL finds what a request asks for: by an index, however far the service has grown.

And what a request costs: how many statements, BEGIN and COMMIT among them.
"""

import json
import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.client import DESKS, EVENTS, ME, code, deploy_path, get, post, push
from tests.factories import (
    a_bot,
    a_card,
    a_connected_desk,
    a_desk_token,
    a_platform_token,
    a_ready_desk,
    a_shared_secret,
)
from tests.signals.bodies import deploy, fanout, floor, tradingview
from tokens import formats

pytestmark = pytest.mark.django_db
on_postgresql = pytest.mark.skipif(
    "connection.vendor != 'postgresql'", reason="these are PostgreSQL's own"
)

ONE_ROW = {"events_head"}
PLANNED = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH|\()")


def whole_reads(queries):
    """The tables that are read whole, with the statement, though an index is taken where one fits.

    PostgreSQL would rather read the small tables of a test whole: it is told not to.
    """
    found = []
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        for query in queries:
            if PLANNED.match(query["sql"]):
                cursor.execute("EXPLAIN " + query["sql"])
                plan = "\n".join(row[0] for row in cursor.fetchall())
                tables = set(re.findall(r"Seq Scan on (\w+)", plan)) - ONE_ROW
                found += [(table, query["sql"]) for table in tables]
    return found


@on_postgresql
def test_no_signal_reads_a_table_whole(desk):
    bot, engine, secret = a_bot(desk), a_platform_token(), a_shared_secret()
    again = fanout()
    with CaptureQueriesContext(connection) as queries:
        answers = [
            post(deploy_path(desk.public_id), deploy(), engine),
            push(tradingview(bot), secret=bot.secret),
            push(floor(desk), secret=secret),
            push(again, engine),
            push(again, engine),
            push(tradingview(bot, direction="long"), secret=bot.secret),
            push(tradingview(bot), secret=secret),
            post(deploy_path("usr_nobody"), deploy(), engine),
        ]
    assert [code(answer) for answer in answers] == [
        *["ok"] * 4,
        "nonce_used",
        "direction_mismatch",
        "signature_invalid",
        "not_found",
    ]
    assert whole_reads(queries) == []


@on_postgresql
@pytest.mark.parametrize(
    "query",
    ["", "?after=MA", "?ready=1", "?ready=0", "?connected=1", "?connected=0", "?signal={signal}"],
)
def test_no_page_of_desks_reads_a_table_whole(desk, query):
    a_connected_desk()
    engine = a_platform_token()
    signal = push(fanout(), engine).json()["signal"]["id"]
    with CaptureQueriesContext(connection) as queries:
        assert code(get(DESKS + query.format(signal=signal), engine)) == "ok"
    assert whole_reads(queries) == []


@on_postgresql
@pytest.mark.parametrize(
    "query",
    [
        "",
        "?order=desc",
        "?kind=signal.filled&kind=desk.created",
        "?userId={desk}",
        "?signal={signal}",
    ],
)
def test_no_page_of_the_feed_reads_a_table_whole(desk, query):
    engine = a_platform_token()
    signal = push(fanout(), engine).json()["signal"]["id"]
    path = EVENTS + query.format(desk=desk.public_id, signal=signal)
    with CaptureQueriesContext(connection) as queries:
        for token in (engine, a_desk_token(desk)):
            assert code(get(path, token)) == "ok"
    assert whole_reads(queries) == []


MANY_EVENTS = """
INSERT INTO events_event (position, kind, at, topic, content)
SELECT head.position + i, 'signal.filled', now(),
       CASE WHEN i > 15000 THEN card.id ELSE 'usr_other' END, '{"signal": null, "data": {}}'
FROM desks_card AS card, events_head AS head, generate_series(1, 20000) AS i;
UPDATE events_head SET position = position + 20000;
ANALYZE events_event"""


@on_postgresql
@pytest.mark.parametrize("kind", ["", "&kind=signal.filled"])
def test_a_desks_feed_does_not_walk_past_the_events_of_others(desk, kind):
    engine = a_platform_token()
    with connection.cursor() as cursor:
        cursor.execute(MANY_EVENTS)
    with CaptureQueriesContext(connection) as queries:
        page = get(f"{EVENTS}?userId={desk.public_id}{kind}", engine).json()
    assert len(page["events"]) == 100
    read = next(query["sql"] for query in queries if "UNION ALL" in query["sql"])
    with connection.cursor() as cursor:
        cursor.execute("EXPLAIN (ANALYZE, FORMAT JSON) " + read)
        plan = json.dumps(cursor.fetchone())
    passed = re.findall(r'"Rows Removed by (?:Index Recheck|Filter)": (\d+)', plan)
    assert sum(map(int, passed)) < 100
    assert "Seq Scan" not in plan


@on_postgresql
def test_one_desk_is_found_by_an_index(desk):
    engine, own = a_platform_token(), a_desk_token(desk)
    with CaptureQueriesContext(connection) as queries:
        answers = [get(f"{DESKS}/{desk.public_id}", engine), get(ME, own)]
    assert [code(answer) for answer in answers] == ["ok", "ok"]
    assert whole_reads(queries) == []


@pytest.mark.django_db(transaction=True)
def test_a_deploy_and_a_signed_push_take_five_statements_on_postgresql():
    desk = a_ready_desk(a_card())
    bot, engine = a_bot(desk), a_platform_token()
    post(deploy_path(desk.public_id), deploy(), engine)  # notes that the token was used
    most = 5 if connection.vendor == "postgresql" else 7
    for send in (
        lambda: post(deploy_path(desk.public_id), deploy(), engine),
        lambda: push(tradingview(bot), secret=bot.secret),
    ):
        with CaptureQueriesContext(connection) as queries:
            assert code(send()) == "ok"
        assert len(queries) <= most, [query["sql"] for query in queries]


def test_what_needs_no_database_to_be_refused_asks_it_nothing(desk, django_assert_num_queries):
    engine, bot = a_platform_token(), a_bot(desk)
    mistyped = engine[:-1] + ("0" if engine[-1] != "0" else "1")
    path, at = deploy_path(desk.public_id), {"X-SVC-Timestamp": "1000000000"}
    signature = {"X-SVC-Signature": "v1=" + "0" * 64}
    refused = {
        "a checksum": (lambda: post(path, deploy(), mistyped), "token_invalid"),
        "a scheme": (
            lambda: post(path, deploy(), headers={"Authorization": f"Basic {engine}"}),
            "token_invalid",
        ),
        "another prefix": (
            lambda: post(path, deploy(), formats.new(formats.SIGNING_SECRET)),
            "token_invalid",
        ),
        "a timestamp": (
            lambda: push(tradingview(bot), headers={**at, **signature}),
            "timestamp_invalid",
        ),
        "half a signature": (lambda: push(tradingview(bot), headers=at), "signature_missing"),
        "a size": (lambda: push(b"x" * 65537, engine), "body_too_large"),
        "a method": (lambda: get(path, engine), "method_not_allowed"),
    }
    with django_assert_num_queries(0):
        assert {name: code(send()) for name, (send, _) in refused.items()} == {
            name: expected for name, (_, expected) in refused.items()
        }
