"""PostgreSQL answers every query with an index, however large the tables are.

And what a request costs: how many statements, BEGIN and COMMIT among them.
"""

import json
import re
from collections.abc import Iterable
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from desks import actions
from desks.event_data import WithdrawalReason
from desks.expectations import watch
from desks.models import Automation, Bookmark, Card, Desk, Election
from events.feed import MAX_CHECKED_PER_PAGE
from events.http.cursors import log_cursor, scan_cursor
from events.kinds import GROUPS, Kind
from events.models import Event, Head
from signals.control import search
from signals.intake.models import Signal
from signals.reports import counts
from signals.webhooks.models import Subscription
from tests.bench import growth
from tests.client import (
    BOTS,
    DESKS,
    EVENTS,
    ME,
    SIGNALS,
    SUBSCRIPTIONS,
    code,
    deploy_path,
    get,
    post,
    push,
    signed_in,
)
from tests.crowd import a_crowd
from tests.factories import (
    a_bot,
    a_card,
    a_connected_desk,
    a_desk_token,
    a_platform_token,
    a_ready_desk,
    a_shared_secret,
    expect,
    expecting,
)
from tests.signals.bodies import deploy, fanout, floor, tradingview
from tests.signals.webhooks.stage import a_webhook, act, an_active_webhook
from tests.staff import a_client, list_of
from tokens.actions import end_credentials
from tokens.crypto import formats
from tokens.models import SigningSecret, Token

pytestmark = pytest.mark.django_db
on_postgresql = pytest.mark.skipif(
    "connection.vendor != 'postgresql'", reason="these are PostgreSQL's own"
)

ONE_ROW = {"events_head"}
ACTUAL = re.compile(r'"Actual Rows": (\d+), "Actual Loops": (\d+)')
PLANNED = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH|\()")


def execute(*statements):
    """Executes each statement, and returns the rows of the last one if it has any."""
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return cursor.fetchall() if cursor.description else []


def plans_of(queries):
    """Each statement and its plan, in which an index is taken where one fits.

    PostgreSQL would rather read the small tables of a test whole: it is told not to.
    """
    execute("SET LOCAL enable_seqscan = off")
    for query in queries:
        if PLANNED.match(query["sql"]):
            rows = execute("EXPLAIN " + query["sql"])
            yield query["sql"], "\n".join(row[0] for row in rows)


def whole_reads(queries):
    """The tables with a sequential scan, and the statement."""
    return [
        (table, statement)
        for statement, plan in plans_of(queries)
        for table in set(re.findall(r"Seq Scan on (\w+)", plan)) - ONE_ROW
    ]


@on_postgresql
def test_no_signal_scans_a_whole_table(desk):
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


def end_elections(desk: Desk, of: Automation | Card, positions: Iterable[int]) -> None:
    """Makes an election of a bot or a card at each position, which ended at the next one."""
    Election.objects.bulk_create(
        Election(
            desk=desk,
            **{"card" if isinstance(of, Card) else "automation": of},
            pair="A/B",
            direction="long",
            elected_at=timezone.now(),
            opened=at,
            closed=at + 1,
            reason=WithdrawalReason.ASKED,
        )
        for at in positions
    )


def test_what_a_desk_removed_and_withdrew_is_not_read_under_the_lock(desk):
    """Others' signals wait meanwhile, and a desk can have removed any number of bots."""
    now = timezone.now()
    bot = a_bot(desk)
    for gone in range(1000):
        Automation.objects.create(desk=desk, name=f"{gone}", created_at=now, removed_at=now)
    end_elections(desk, bot.automation, range(10**6, 10**6 + 2000, 2))
    end_elections(desk, Card.objects.get(), range(10**6 + 1, 10**6 + 2000, 2))
    execute("ANALYZE")
    with CaptureQueriesContext(connection) as queries:
        actor = desk.actor
        actions.add_automation(desk=desk, name="One more", actor=actor)
        end_credentials(desk=desk, actor=actor, token=True, secrets=True)
        actions.withdraw(desk=desk, actor=actor)
        actions.disconnect(desk=desk, actor=actor)
    explain = "EXPLAIN " if connection.vendor == "postgresql" else "EXPLAIN QUERY PLAN "
    of_desk = re.compile(r'^SELECT .*"(?:automation|election)"\."desk_id" = ')
    plans = [
        "\n".join(str(row) for row in execute(explain + query["sql"]))
        for query in queries
        if of_desk.match(query["sql"].replace('"desks_', '"'))
    ]
    assert len(plans) >= 4
    assert [plan for plan in plans if not re.search("bot_of_desk|election_open", plan)] == []


def test_what_the_bots_of_a_desk_elected_is_not_read_to_find_whether_it_ever_enrolled(card):
    """It is read under the lock, and a desk's bots can have had any number of elections."""
    a_crowd(card, 1000)
    desk, engine = a_connected_desk(), a_platform_token()
    bot = a_bot(desk)
    actions.withdraw(desk=desk, actor=desk.actor, automation=bot.automation)
    end_elections(desk, bot.automation, range(10**6, 10**6 + 1000))
    execute("ANALYZE")
    with CaptureQueriesContext(connection) as queries:
        pushed = push(tradingview(bot), secret=bot.secret)
        deployed = post(deploy_path(desk.public_id), deploy(), engine)
    assert code(pushed) == "no_election"
    assert deployed.json()["reason"] == "not_enrolled"
    decided = [query["sql"] for query in queries if "AS spent" in query["sql"]]
    assert len(decided) == 2
    for statement in decided:
        if connection.vendor == "postgresql":
            assert_bounded(statement, most=10)
        else:
            steps = [step for *_, step in execute("EXPLAIN QUERY PLAN " + statement)]
            read = [step for step in steps if " desks_election USING" in step]
            assert [step for step in read if "election_enrolled" not in step] == []
            assert read


@on_postgresql
def test_no_read_of_the_api_scans_a_whole_table(desk):
    a_connected_desk()
    bot, engine, own = a_bot(desk), a_platform_token(), a_desk_token(desk)
    of_bot = push(tradingview(bot), secret=bot.secret).json()["signal"]
    signal = push(fanout(), engine).json()["signal"]["id"]
    epoch = Head.objects.get().epoch
    of_the_platform = (
        DESKS,
        f"{DESKS}?after={scan_cursor('desks', epoch, 0, 0)}",
        f"{DESKS}?changedSince={log_cursor(epoch, 1)}",
        f"{DESKS}?ready=1",
        f"{DESKS}?ready=0",
        f"{DESKS}?connected=1",
        f"{DESKS}?connected=0",
        f"{DESKS}?signal={signal}",
        f"{DESKS}/{desk.public_id}",
    )
    of_both = (
        EVENTS,
        f"{EVENTS}?order=desc",
        f"{EVENTS}?kind=signal.filled&kind=desk.created",
        f"{EVENTS}?userId={desk.public_id}",
        f"{EVENTS}?botId={bot.id}",
        f"{EVENTS}?botId={bot.id}&kind=signal.filled&kind=signal.refused",
        f"{EVENTS}?since=2026-01-01T00:00:00Z",
        f"{EVENTS}?until=2099-01-01T00:00:00Z&order=desc&kind=signal.filled",
        f"{EVENTS}?signal={signal}",
        f"{SIGNALS}?nonce={of_bot['nonce']}&botId={bot.id}",
        f"{SIGNALS}/{of_bot['id']}",
    )
    for token, paths in ((engine, (*of_the_platform, *of_both)), (own, (ME, *of_both))):
        for path in paths:
            with CaptureQueriesContext(connection) as queries:
                assert code(get(path, token)) == "ok"
            assert whole_reads(queries) == [], path


@on_postgresql
def test_desks_that_are_not_ready_are_planned_for_each_request(desk):
    """One plan for all values reads every desk, although none may be without an election."""
    engine = a_platform_token()
    for query in ("?connected=0", "?ready=0"):
        for _ in range(7):  # the driver prepares a statement that it sends for the sixth time
            assert code(get(DESKS + query, engine)) == "ok"
    prepared = [text for (text,) in execute("SELECT statement FROM pg_prepared_statements")]
    assert any('NOT "desks_desk"."connected"' in statement for statement in prepared)
    assert not any('"enrolled_id" IS NULL' in statement for statement in prepared)


@on_postgresql
def test_no_look_at_webhooks_scans_a_whole_table(desk):
    for kinds in ((), ("signal.filled", "card.published")):
        an_active_webhook(desk, *kinds), an_active_webhook(None, *kinds)
    own, engine = a_desk_token(desk), a_platform_token()
    with CaptureQueriesContext(connection) as queries:
        assert len(get(SUBSCRIPTIONS, own).json()["subscriptions"]) == 2
        assert len(get(SUBSCRIPTIONS, engine).json()["subscriptions"]) == 2
        list(Subscription.objects.due(timezone.now()).order_by("next_attempt_at"))
    assert whole_reads(queries) == []
    plans = [
        plan for sql, plan in plans_of(queries) if "next_attempt_at" in sql and "leased" in sql
    ]
    assert "subscription_due" in plans[-1]


@on_postgresql
def test_the_list_of_bots_reads_a_limited_part_of_a_large_log(desk):
    bot, own = a_bot(desk), a_desk_token(desk)
    execute(
        many_events(desk, bot.id),
        "UPDATE events_event SET at = now() WHERE position > 100",
        as_events_of(bot.id),
    )
    get(BOTS, own)  # notes the token's use
    with bounded_reads() as queries:
        [listed] = get(BOTS, own).json()["bots"]
    assert listed["today"]["more"]
    assert listed["today"]["filled"] + listed["today"]["refused"] == counts.MAX_OF_BOT
    assert len(queries) <= 6
    assert whole_reads(queries) == []


# Refusals of a bot, and as many fills of another bot of its desk.
REFUSALS = """
INSERT INTO events_event (position, kind, at, topic, content)
SELECT head.position + i, CASE WHEN i % 2 = 0 THEN 'signal.refused' ELSE 'signal.filled' END,
       head.at + i * interval '1 millisecond', '{desk}',
       jsonb_build_object('signal', null, 'data', jsonb_build_object(
           'botId', CASE WHEN i % 2 = 0 THEN '{bot}' ELSE 'bot_other' END))
FROM events_head AS head, generate_series(1, 20000) AS i;
UPDATE events_head SET position = position + 20000, at = at + interval '20 seconds';
REINDEX TABLE events_event;
ANALYZE"""


def look(later):
    """Looks which bots are late or heard again so much later. Each statement reads little.

    Afterwards nothing is due, so the plans are those of a look that is rolled back before.
    """
    execute("SAVEPOINT before")
    with (
        time_machine.travel(timezone.now() + later),
        CaptureQueriesContext(connection) as queries,
    ):
        watch(timezone.now())
    execute("ROLLBACK TO SAVEPOINT before")
    read = [query["sql"] for query in queries if re.match("SELECT .*events_event", query["sql"])]
    assert read
    for statement in read:
        assert_bounded(statement)
    with time_machine.travel(timezone.now() + later):
        watch(timezone.now())


def alarms(bot):
    """What the log says of the bot being late or heard."""
    kinds = ["automation.quiet", "automation.heard"]
    return [event.kind for event in Event.objects.filter(kind__in=kinds, bot_id=bot.id)]


HOURLY = expecting(timedelta(hours=1), timedelta(0))


@on_postgresql
def test_the_watch_reads_a_limited_part_of_what_a_silent_bot_was_refused(desk):
    bot, now, hour = a_bot(desk), timezone.now(), timedelta(hours=1)
    expect(bot, HOURLY)
    execute("REINDEX TABLE events_event")  # of the rows of other tests, as below
    look(2 * hour)
    execute(REFUSALS.format(desk=desk.public_id, bot=bot.id))
    Bookmark.objects.all().delete()  # as at the first start of this release
    look(3 * hour)
    assert alarms(bot) == ["automation.quiet"]
    with time_machine.travel(now + 3 * hour):
        assert code(push(tradingview(bot), secret=bot.secret)) == "ok"
    look(3 * hour)
    assert alarms(bot) == ["automation.quiet", "automation.heard"]


@on_postgresql
@pytest.mark.parametrize("is_expected_first", [True, False])
def test_the_watch_reads_a_limited_part_of_what_a_bot_that_never_filled_was_refused(
    desk, is_expected_first
):
    """It is decided, and so is a bot that is due after it."""
    bot, later = a_bot(desk), a_bot(desk)
    history = REFUSALS.format(desk=desk.public_id, bot=bot.id)
    if not is_expected_first:
        execute(history)
    expect(bot, HOURLY)
    if is_expected_first:
        execute(history)
    expect(later, HOURLY)
    look(timedelta(hours=2))
    assert alarms(bot) == alarms(later) == ["automation.quiet"]


# The rows of other tests, which are rolled back, stay in the indexes until they are vacuumed. A
# plan counts them and depends on them, so REINDEX drops them.
MANY_EVENTS = """
INSERT INTO events_event (position, kind, at, topic, content)
SELECT head.position + i, 'signal.filled', now(),
       CASE WHEN i > 15000 THEN card.id ELSE 'usr_other' END, '{"signal": null, "data": {}}'
FROM desks_card AS card, events_head AS head, generate_series(1, 20000) AS i;
UPDATE events_head SET position = position + 20000;
REINDEX TABLE events_event;
ANALYZE events_event"""


@on_postgresql
def test_a_desks_feed_does_not_scan_the_events_of_other_desks(desk):
    engine = a_platform_token()
    execute(MANY_EVENTS)
    for kind in ("", "&kind=signal.filled"):
        with CaptureQueriesContext(connection) as queries:
            page = get(f"{EVENTS}?userId={desk.public_id}{kind}", engine).json()
        assert len(page["events"]) == 100
        read = next(query["sql"] for query in queries if "UNION ALL" in query["sql"])
        plan = json.dumps(execute("EXPLAIN (ANALYZE, FORMAT JSON) " + read))
        passed = re.findall(r'"Rows Removed by (?:Index Recheck|Filter)": (\d+)', plan)
        assert sum(map(int, passed)) < 100, kind
        assert "Seq Scan" not in plan, kind


# A desk with many events of two bots and two pairs, a tenth of them refused. The one event of the
# rare pair, the rare bot and the rare code is the oldest.
MANY_OF_ONE_DESK = """
INSERT INTO events_event (position, kind, at, topic, content)
SELECT head.position + i,
       CASE WHEN i % 10 = 1 THEN 'signal.refused' ELSE 'signal.filled' END,
       '2020-01-01'::timestamptz + i * interval '1 minute', '{desk}',
       CASE WHEN i % 10 = 1 THEN jsonb_build_object('signal', null, 'data', jsonb_build_object(
                'code', CASE WHEN i = 1 THEN 'nonce_used' ELSE 'pair_mismatch' END,
                'source', 'tradingview', 'elected',
                jsonb_build_object('pair', 'BBB/A', 'direction', 'long'),
                'botId', CASE WHEN i = 1 THEN '{bot}' ELSE 'bot_' || i % 2 END,
                'sent', jsonb_build_object('pair', CASE WHEN i = 1 THEN 'RARE/X' ELSE 'AAA/B' END,
                                           'direction', 'long')))
            ELSE jsonb_build_object('data', '{{}}'::jsonb, 'signal', jsonb_build_object(
                'botId', 'bot_' || i % 2, 'pair', 'BBB/A', 'direction', 'long',
                'source', 'tradingview')) END
FROM events_head AS head, generate_series(1, 20000) AS i;
UPDATE events_head SET position = position + 20000, at = '2021-01-01';
REINDEX TABLE events_event;
ANALYZE events_event"""


OF_ANOTHER_BOT = """
UPDATE events_event SET content = replace(content::text, 'bot_1', '{bot}')::jsonb"""


def many_events(desk, bot_id):
    """The statement that writes many events of the desk. The rare ones are of this bot."""
    return MANY_OF_ONE_DESK.format(desk=desk.public_id, bot=bot_id)


def as_events_of(bot_id):
    """The statement that makes the events of one of the two other bots those of this one."""
    return OF_ANOTHER_BOT.format(bot=bot_id)


@on_postgresql
def test_no_search_of_the_activity_reads_the_log_of_a_large_desk(desk):
    bot, owner = a_bot(desk), signed_in(desk.user)
    execute(many_events(desk, bot.id))
    for query, events in {
        "pair=RARE/X": 1,
        f"bot={bot.id}&kind=signal.refused": 1,
        "code=nonce_used": 1,
        f"code=nonce_used&pair=RARE/X&bot={bot.id}&kind=signal.refused": 1,
        f"pair=BBB/A&bot={bot.id}": 0,
        "since=2020-01-01&until=2020-01-01&code=nonce_used": 1,
        "since=2020-01-02&until=2020-01-02": 50,
        "kind=signal.refused": 50,
        "": 50,
    }.items():
        with bounded_reads():
            page = owner.get(f"/activity?{query}")
        assert page.content.count(b'<li class="signal') == events, query


@contextmanager
def bounded_reads(most=MAX_CHECKED_PER_PAGE):
    """Statements of the block that read the log read a limited part of it. Yields all of them."""
    with CaptureQueriesContext(connection) as queries:
        yield queries
    read = [query["sql"] for query in queries if "events_event" in query["sql"]]
    assert read
    for statement in read:
        assert_bounded(statement, most)


def assert_bounded(statement, most=MAX_CHECKED_PER_PAGE):
    """The statement reads a limited part of the log, by an index."""
    plan = json.dumps(execute("EXPLAIN (ANALYZE, FORMAT JSON) " + statement))
    assert "Seq Scan on events_event" not in plan
    passed = re.findall(r'"Rows Removed by (?:Index Recheck|Filter)": (\d+)', plan)
    assert sum(map(int, passed)) <= most
    rows = [int(rows) * int(times) for rows, times in ACTUAL.findall(plan)]
    assert max(rows) <= most, plan + statement


@on_postgresql
def test_a_search_of_refusals_reads_the_newest_of_a_large_log(desk, monkeypatch):
    monkeypatch.setattr(search, "MAX_SCANNED", 500)
    operator = a_client()
    execute(many_events(desk, "bot_2"))
    for query, count in {
        "reason=pair_mismatch": 500,
        "reason=nonce_used": 0,  # the oldest of 2,000
        "source=tradingview": 500,
        "reason=pair_mismatch&source=tradingview": 500,
        "reason=pair_mismatch&source=floor": 0,
        "q=any-nonce": 0,
    }.items():
        with bounded_reads(most=500):
            page = operator.get(f"{list_of(Event)}?kind=signal.refused&{query}")
        assert page.context["cl"].result_count == count, query


# Most of the log is of a token and of a desk that sent nothing lately. Others are among theirs.
ENDED = """
INSERT INTO events_event (position, kind, at, actor_type, actor_id, topic, content)
SELECT head.position + i, 'signal.filled', now(), 'token', 'tok_' || name, 'usr_' || name,
       jsonb_build_object('data', '{}'::jsonb, 'signal', jsonb_build_object(
           'botId', NULL, 'pair', 'BBB/A', 'direction', 'long', 'source', 'floor'))
FROM events_head AS head, generate_series(1, 20000) AS i, LATERAL (
    SELECT CASE WHEN i > 17000 THEN 'a_new' WHEN i % 40 = 0 THEN 'a' WHEN i % 40 = 20 THEN 'z'
           ELSE 'ended' END AS name) AS named;
UPDATE events_head SET position = position + 20000;
REINDEX TABLE events_event;
ANALYZE events_event"""


@on_postgresql
def test_a_search_for_what_has_ended_does_not_pass_all_that_came_later(desk):
    operator = a_client()
    execute(ENDED)
    for text in ("tok_ended", "usr_ended"):
        with CaptureQueriesContext(connection) as queries:
            page = operator.get(f"{list_of(Event)}?q={text}")
        assert page.context["cl"].result_count == search.MAX_SCANNED
        listed = [one["sql"] for one in queries if '"events_event"."content"' in one["sql"]]
        assert len(listed) == 1
        assert_bounded(listed[0], most=100)


# The signals of these events. Those of a bot are on the topic of its desk.
SIGNALS_OF_ENDED = """
UPDATE events_event SET topic = '{desk}', content = replace(content::text,
    '"botId": null', '"botId": "{bot}"')::jsonb WHERE topic = 'usr_ended';
INSERT INTO signals_signal (position, public_id, signer, nonce, source, mode, outcome, pair,
    direction, fanout, user_id, credential, received_at, matched, filled)
SELECT position, 'sig_' || position, 'floor', position, 'floor', 'paper', 'filled', 'BBB/A', 'long',
    false, topic, actor_id, at, 1, 1 FROM events_event WHERE kind = 'signal.filled';
ANALYZE events_event;
ANALYZE signals_signal"""


@on_postgresql
def test_a_search_for_signals_reads_the_newest_events_of_what_it_names(desk, monkeypatch):
    monkeypatch.setattr(search, "MAX_SCANNED", 500)
    operator, bot = a_client(), a_bot(desk)
    execute(ENDED, SIGNALS_OF_ENDED.format(desk=desk.public_id, bot=bot.id))
    searches = {"tok_ended": 500, desk.public_id: 500, bot.id: 500, "tok_none": 0, "usr_none": 0}
    for text, count in searches.items():
        with CaptureQueriesContext(connection) as queries:
            page = operator.get(f"{list_of(Signal)}?q={text}")
        assert page.context["cl"].result_count == count, text
        for one in queries:
            if "events_event" in one["sql"] or "signals_signal" in one["sql"]:
                assert_bounded(one["sql"], most=500)


@on_postgresql
def test_no_filter_of_the_feed_reads_the_log_of_a_large_desk(desk):
    bot, engine, own = a_bot(desk), a_platform_token(), a_desk_token(desk)
    execute(many_events(desk, bot.id))
    Event.objects.filter(at__year__gt=2021).update(at=datetime(2019, 1, 1, tzinfo=UTC))
    day, newest = "2020-01-01T12:", f"userId={desk.public_id}&order=desc&limit=10"
    every = "".join(f"&kind={kind}" for kind in Kind.values)
    others = "".join(f"&kind={kind}" for kind in set(Kind.values).difference(GROUPS["signal.*"]))
    for query, events in {
        newest + every: 10,
        newest + others: 0,
        f"botId={bot.id}&kind=signal.refused": 1,
        f"botId={bot.id}&order=desc&limit=1": 1,
        "botId=bot_1&kind=desk.created": 0,
        f"userId={desk.public_id}&since={day}00:00Z&until={day}01:00Z": 1,
        f"since={day}00:00Z&until={day}10:00Z&kind=signal.refused": 1,
        f"since={day}00:00Z&until={day}10:00Z&order=desc": 10,
    }.items():
        for token in (engine, own):
            with bounded_reads():
                page = get(f"{EVENTS}?{query}", token).json()
            of_signals = [event for event in page["events"] if event["at"] > "2020"]
            assert len(of_signals) == events, query


BLOCKS = re.compile(r'"Shared (?:Hit|Read) Blocks": (\d+)')


@on_postgresql
def test_a_range_of_an_index_is_read_no_further_than_to_its_end(desk):
    """Entries that no condition keeps are nowhere in a plan but in the blocks that it reads."""
    a_bot(desk)
    execute(many_events(desk, "bot_2"))
    token = a_desk_token(desk)
    for query in (
        "kind=automation.removed",  # every other kind of the desk comes after it
        "kind=signal.filled&since=2020-01-01T01:00:00Z&until=2020-01-01T01:05:00Z&limit=10",
        "botId=bot_1&since=2020-01-01T01:00:00Z&until=2020-01-01T01:05:00Z&limit=10&order=desc",
    ):
        with CaptureQueriesContext(connection) as queries:
            assert get(f"{EVENTS}?{query}", token).status_code == 200
        read = [one["sql"] for one in queries if "LIMIT" in one["sql"] and "_event" in one["sql"]]
        for statement in read:
            plan = json.dumps(execute("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + statement))
            assert sum(map(int, BLOCKS.findall(plan)[:2])) <= 30, statement


@on_postgresql
@pytest.mark.parametrize("kind", ["automation.quiet", "signal.refused"])
def test_what_waits_for_a_webhook_is_looked_for_in_a_limited_part_of_the_log(desk, kind):
    bot = a_bot(desk)
    webhook = a_webhook(desk, kind, bot=bot.id)
    a_webhook(desk, kind)
    execute(many_events(desk, bot.id), as_events_of(bot.id), "ANALYZE events_event")
    owner = signed_in(desk.user, "password")
    asked = [
        lambda: owner.get(SUBSCRIPTIONS),
        lambda: owner.get(f"/webhooks/{webhook.public_id}/skip"),
        lambda: owner.get("/webhooks"),
        lambda: act(owner, webhook, "skip", events="next"),
        lambda: act(owner, webhook, "skip", events="all"),
    ]
    for ask in asked:
        with CaptureQueriesContext(connection) as queries:
            assert ask().status_code == 200
        read = [one["sql"] for one in queries if "FROM events_event" in one["sql"]]
        assert len(read) <= 20
        for statement in read:
            assert_bounded(statement)


@on_postgresql
def test_the_desk_at_a_glance_reads_a_limited_part_of_a_large_log(desk, monkeypatch):
    monkeypatch.setattr(counts, "MAX_OF_DAY", 100)
    monkeypatch.setattr(counts, "MAX_OF_BOT", 50)
    bot, owner = a_bot(desk), signed_in(desk.user)
    execute(
        many_events(desk, bot.id),
        "UPDATE events_event SET at = now() WHERE position > 5000",
        as_events_of(bot.id),
    )
    with bounded_reads(most=1000) as queries:
        page = owner.get("/desk")
    assert b"100+" in page.content
    of_bot = re.findall(rb'class="count">(\d+)\+<', page.content)[:2]
    assert sum(map(int, of_bot)) == 50
    assert len(queries) <= 12


# Nine of ten desks are deactivated, and only those before and behind them are listed.
MOST_DEACTIVATED = """
DELETE FROM desks_connection WHERE desk_id BETWEEN 10001000 AND 10018999;
UPDATE desks_desk SET connected = false, enrolled_id = NULL, deactivated = true
WHERE id BETWEEN 10001000 AND 10018999;
UPDATE desks_election SET closed = opened + 1, reason = 'deactivated'
WHERE desk_id BETWEEN 10001000 AND 10018999;
"""


@on_postgresql
def test_a_page_of_desks_costs_the_same_at_any_depth(card):
    """PostgreSQL plans a prepared statement once for all pages."""
    engine, many = a_platform_token(), 20_000
    execute(growth.rows(desks=many, events=many))
    head = Head.objects.get()
    before_last = growth.START + many - 101
    for change, last in (("", before_last), (MOST_DEACTIVATED, growth.START + 999)):
        execute(change + "ANALYZE")
        after = scan_cursor("desks", head.epoch, head.position, last)
        assert_reads_one_page(f"{DESKS}?after={after}", engine, last)


@on_postgresql
def test_a_page_of_changed_desks_costs_the_same_however_many_changed(card):
    engine, many = a_platform_token(), 20_000
    execute(growth.rows(desks=many, events=many), "ANALYZE")
    head = Head.objects.get()
    for behind in (101, 15_000):
        since = head.position - behind
        path = f"{DESKS}?changedSince={log_cursor(head.epoch, since)}"
        assert_reads_one_page(path, engine, since)


def assert_reads_one_page(path, engine, last):
    """A full page is read with no more rows of a table, also by a plan for every ``last``."""
    with CaptureQueriesContext(connection) as queries:
        page = get(path, engine).json()
    assert len(page["desks"]) == 100
    read = next(query["sql"] for query in queries if "venue" in query["sql"])
    assert f"> {last}" in read
    plan = json.dumps(
        execute(
            f"PREPARE page(bigint) AS {read.replace(str(last), '$1')}",
            "SET LOCAL plan_cache_mode = force_generic_plan",
            "SET LOCAL enable_seqscan = off",
            f"EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE page({last})",
        )
    )
    execute(
        "SET LOCAL plan_cache_mode = auto",
        "SET LOCAL enable_seqscan = on",
        "DEALLOCATE page",  # a rollback leaves it
    )
    read_rows = [int(rows) * int(times) for rows, times in ACTUAL.findall(plan)]
    assert max(read_rows) <= 101


# A bot of each desk, with its secret, three elections that were withdrawn, and a desk token.
MANY_BOTS = """
INSERT INTO desks_automation (id, desk_id, name, created_at)
SELECT 'bot_' || id, id, '', now() FROM desks_desk WHERE public_id LIKE 'usr_grown%';
INSERT INTO desks_election
    (desk_id, automation_id, pair, direction, opened, closed, elected_at, reason)
SELECT desk_id, bot, '', 'long', 1 + position - number, 1 + position, now(), 'asked'
FROM events_head, (SELECT desk_id, id AS bot, row_number() OVER () AS number
                   FROM desks_automation, generate_series(1, 3) WHERE name = '') AS withdrawn;
INSERT INTO tokens_signingsecret
    (public_id, source, automation_id, ciphertext, key_id, hint, created_at)
SELECT 'sec_' || desk_id, 'tradingview', id, 'x', 'x', '', now()
FROM desks_automation WHERE name = '';
INSERT INTO tokens_token
    (public_id, scope, desk_id, name, can_read, can_write, digest, key_id, hint, created_at)
SELECT 'tok_' || id, 'desk', id, '', true, false, id, '', '', now()
FROM desks_desk WHERE public_id LIKE 'usr_grown%';
ANALYZE"""


def wants(of_desk, of_bot, of_token, signal):
    """The requests that use each index."""
    return {
        "desk_enrolled": f"{DESKS}?ready=0",
        "desk_unconnected": f"{DESKS}?connected=0",
        "election_card": f"{DESKS}?signal={signal}",
        "election_desk": f"{list_of(Election)}?q={of_desk}",
        "election_enrolled": f"{EVENTS}?userId={of_desk}",
        "event_topic": f"{EVENTS}?userId={of_desk}",
        "event_topic_kind": f"{EVENTS}?userId={of_desk}&kind=desk.created",
        "event_kind": f"{EVENTS}?kind=desk.created",
        "event_signal": f"{EVENTS}?signal={signal}",
        "event_actor": f"{list_of(Event)}?q={of_token}",
        "desks_automation_desk_id_9872d92d": f"{list_of(Automation)}?q={of_desk}",
        "desks_election_automation_id_5e40c58b": f"{list_of(Election)}?q={of_bot}",
        "tokens_signingsecret_automation_id_b99d5b34": f"{list_of(SigningSecret)}?q={of_bot}",
        "tokens_token_desk_id_315051fa": f"{list_of(Token)}?q={of_desk}",
        "event_topic_code": "/activity?code=pair_mismatch",
        "event_topic_bot_id": f"/activity?bot={of_bot}",
        "event_topic_pair": "/activity?pair=BTC/USDT",
    }


@on_postgresql
def test_what_is_asked_of_large_tables_has_its_index(desk):
    bot, engine, operator = a_bot(desk), a_platform_token(), a_client()
    owner = signed_in(desk.user)
    a_desk_token(desk)
    execute(growth.rows(desks=5_000, events=20_000), MANY_BOTS)
    signal = push(fanout(), engine).json()["signal"]["id"]
    token = Token.objects.get(desk=None).public_id
    for index, address in wants(desk.public_id, bot.id, token, signal).items():
        with CaptureQueriesContext(connection) as queries:
            if address.startswith("/activity"):
                answer = owner.get(address)
            else:
                answer = operator.get(address) if "/control/" in address else get(address, engine)
        assert answer.status_code == 200
        used = re.compile(rf" {index}(_like)? ")
        assert any(used.search(plan) for _, plan in plans_of(queries)), index


@pytest.mark.django_db(transaction=True)
def test_a_deploy_and_a_signed_push_take_six_statements_on_postgresql():
    desk = a_ready_desk(a_card())
    bot, engine = a_bot(desk), a_platform_token()
    post(deploy_path(desk.public_id), deploy(), engine)  # notes that the token was used
    most = 6 if connection.vendor == "postgresql" else 8
    for send in (
        lambda: post(deploy_path(desk.public_id), deploy(), engine),
        lambda: push(tradingview(bot), secret=bot.secret),
    ):
        with CaptureQueriesContext(connection) as queries:
            assert code(send()) == "ok"
        assert len(queries) <= most, [query["sql"] for query in queries]


def test_a_refusal_that_needs_no_database_takes_no_query(desk, django_assert_num_queries):
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
