"""Section 4, GET /api/v1/events: who sees what, and that a reader loses and repeats nothing."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

import pytest

from tests.conformance.browser import Bot
from tests.conformance.client import (
    EVENTS,
    OF_ANOTHER_LOG,
    SOMEBODY,
    TOKENS,
    assert_refused,
    code,
    faults,
)

# How many worker processes may serve one connection, through a proxy.
WORKERS = int(os.environ.get("WORKERS", "1"))
EVENT = {"id", "position", "kind", "at", "actor", "userId", "signal", "data"}
TOKEN = {
    "id",
    "scope",
    "name",
    "scopes",
    "hint",
    "createdAt",
    "expiresAt",
    "revokedAt",
    "userId",
}
SECRET = {"id", "owner", "hint", "createdAt", "endsAt"}
ELECTION = {"pair", "direction"}
WEBHOOK = {"id", "name", "kinds", "bot", "state", "reason"}
MARKS = {"requestId", "nonce"}
REFUSAL = {"code", "source", "sent", "elected", "botId"}
# Section 4, the table of kinds: the data that everybody sees.
DATA: dict[str, Any] = {
    "desk.created": [{"venue"}],
    "desk.connected": [{"venue"}],
    "desk.disconnected": [{"venue"}],
    "desk.deactivated": [{"venue"}],
    "desk.reactivated": [{"venue"}],
    "desk.closed": [{"venue"}],
    "card.published": [{"card", "cardId"}],
    "card.retired": [{"card", "cardId"}],
    "election.made": [ELECTION | {"card", "cardId"}, ELECTION | {"botId"}],
    "election.withdrawn": [
        ELECTION | {"card", "cardId", "reason"},
        ELECTION | {"botId", "reason"},
    ],
    "automation.created": [{"botId", "name"}],
    "automation.changed": [{"botId", "name", "expected", "maxAge"}],
    "automation.quiet": [{"botId", "name", "since", "dueAt"}],
    "automation.heard": [{"botId", "name", "since", "heardAt"}],
    "automation.removed": [{"botId", "name"}],
    "token.minted": [TOKEN],
    "token.revoked": [TOKEN],
    "secret.generated": [SECRET],
    "secret.ended": [SECRET],
    "subscription.created": [WEBHOOK | {"secret"}],
    "subscription.verified": [WEBHOOK],
    "subscription.changed": [WEBHOOK | {"changed"}],
    "subscription.secret_replaced": [WEBHOOK | {"secret", "previousEndsAt"}],
    "subscription.paused": [WEBHOOK],
    "subscription.resumed": [WEBHOOK],
    "subscription.rewound": [WEBHOOK | {"position"}, WEBHOOK | {"position", "skipped"}],
    "subscription.failing": [WEBHOOK | {"since"}],
    "subscription.working": [WEBHOOK],
    "subscription.disabled": [WEBHOOK],
    "subscription.removed": [WEBHOOK],
    "signal.filled": [set()],
    "signal.dry_run": [set()],
    "signal.recorded": [set()],
    "signal.refused": [
        REFUSAL | more for more in (set(), MARKS, {"errors"}, MARKS | {"errors"}, {"suppressed"})
    ],
}
# What the platform sees beside it.
OF_THE_PLATFORM: dict[str, Any] = {
    "signal.filled": {"matched", "filled"},
    "signal.dry_run": {"matched"},
    "signal.recorded": {"matched"},
}
# Kinds that no page of a customer causes, or that would disturb the other tests.
RARE = {"automation.quiet", "automation.heard"}  # a bot is expected every 15 minutes at most
RARE |= {"card.retired", "desk.disconnected", "desk.deactivated", "desk.reactivated", "desk.closed"}
# Those of webhooks are in the file of webhooks.
RARE |= {kind for kind in DATA if kind.startswith("subscription.")}
REASONS = {"asked", "disconnected", "removed", "replaced", "deactivated", "closed"}
SENDERS_OWN = {"nonce", "traceId", "decisionRef"}
WRITERS, SIGNALS_EACH = 6, 15
# A filter against other events of the same time.
FILLS = {"kind": "signal.filled"}


def positions(events):
    return [event["position"] for event in events]


def kinds(events):
    return [event["kind"] for event in events]


@pytest.fixture(scope="module")
def history(service, user, admin):
    """Something of everything that a customer does, and a signal of every outcome.

    A token of its own sends what is refused: of each sender few refusals a minute are recorded.
    """
    bot = Bot(user)
    bot.elect("AAA/BBB", "long")
    bot.elect("AAA/CCC", "long")
    bot.expect("trading_days")
    secret = bot.generate()
    bot.generate(3600)
    signals = {
        "bot": service.push(bot.body(pair="AAA/CCC", direction="long"), secret=secret),
        "all": service.push(service.fanout(), service.platform),
        "one": service.push(service.to_desk(), service.platform),
        "dry": service.push(service.of_nox(mode="dry_run"), service.platform),
        "draft": service.push(service.of_nox(mode="draft", fanout=False), service.platform),
    }
    with admin.platform_token("write") as token:
        service.push(service.to_desk(pair="NOT/IT"), token["token"])
    bot.end_secrets()
    bot.remove()
    user.mint_desk_token()
    return {name: answer.json()["signal"] for name, answer in signals.items()}


# --- The log and its events ----------------------------------------------------------------------


def test_the_whole_log_has_every_position_from_1_on(service, history):
    """Section 1, log: 1, 2, 3 … with no number missing."""
    events = service.events(limit=1000)
    assert positions(events) == list(range(1, len(events) + 1))


def test_every_event_has_these_fields(service, history):
    """Section 4, event: id is evt_ + position."""
    for event in service.events(limit=1000):
        assert set(event) == EVENT
        assert event["id"] == f"evt_{event['position']}"
        assert event["kind"] in DATA


def test_every_kind_carries_the_data_of_the_table(service, history):
    """Section 4, the table, as the platform sees it."""
    seen = set()
    for event in service.events(limit=1000):
        more = OF_THE_PLATFORM.get(event["kind"], set())
        assert set(event["data"]) in [data | more for data in DATA[event["kind"]]], event
        seen.add(event["kind"])
    assert seen >= set(DATA) - RARE


def test_a_withdrawal_says_why(service, history):
    """Section 4, the table: reason."""
    withdrawn = service.events(kind="election.withdrawn")
    reasons = {event["data"]["reason"] for event in withdrawn}
    assert {"replaced", "removed"} <= reasons <= REASONS


def test_every_event_says_who_caused_it(service, history):
    """Section 4: actor, as the platform sees it."""
    prefixes = {"user": "usr_", "staff": "stf_", "token": "tok_", "secret": "sec_"}
    events = service.events(limit=1000)
    for event in events:
        actor = event["actor"]
        if actor is None:
            assert event["data"]["code"] == "signature_invalid"
        elif actor["type"] == "system":
            assert actor["id"] is None
        else:
            assert actor["id"].startswith(prefixes[actor["type"]])
    bots = [event for event in events if (event["signal"] or {}).get("botId")]
    assert {event["actor"]["type"] for event in bots} == {"secret"}


def test_a_desk_is_shown_its_own_user_token_and_bots_as_actors_alone(service, user, history):
    """Section 4: null in place of any other. One desk token has revoked itself."""
    service.send("DELETE", TOKENS, token=user.mint_desk_token())
    views = [(service.desk_token, service.desk), (user.mint_desk_token(), service.own_desk)]
    by_position = {event["position"]: event for event in service.events(limit=1000)}
    seen = set()
    for view, desk in views:
        for event in service.events(view, limit=1000):
            whole = by_position[event["position"]]
            own = whole["actor"] in actors_of(desk, whole)
            assert event["actor"] == (whole["actor"] if own else None), whole
            seen.add(event["actor"] and event["actor"]["type"])
    assert seen == {"user", "token", "secret", None}


def actors_of(desk, event):
    """The desk's own user, its token that revoked itself, and the secret of its own bot."""
    actor, data = event["actor"] or {}, event["data"]
    if (event["signal"] or data).get("botId"):
        yield {"type": "secret", "id": actor.get("id")}
    if event["kind"] == "token.revoked" and event["userId"] == desk:
        yield {"type": "token", "id": data["id"]}
    yield {"type": "user", "id": desk}


# --- Who sees what -------------------------------------------------------------------------------


def test_a_desk_sees_what_is_addressed_to_it_to_all_and_to_its_card(service, history):
    """Section 4: its desk, a card while its election on it stood, or all."""
    seen = {e["signal"]["id"] for e in service.events(service.desk_token) if e["signal"]}
    assert history["all"]["id"] in seen
    assert history["one"]["id"] in seen
    for hidden in ("bot", "dry", "draft"):
        assert history[hidden]["id"] not in seen
    assert "card.published" in kinds(service.events(service.desk_token))
    addressed = {event["userId"] for event in service.events(service.desk_token)}
    assert addressed <= {None, service.desk}


def test_what_is_the_platforms_only_is_shown_to_no_desk(service, history):
    """Section 4, the table: platform tokens, Floor and Nox secrets, what had no target."""
    own = service.events(service.desk_token)
    for event in own:
        if event["kind"].startswith("token."):
            assert event["data"]["scope"] == "desk"
        if event["kind"].startswith("secret."):
            assert event["data"]["owner"].startswith("bot_")


def test_a_desk_that_did_not_stand_on_the_card_sees_no_fill_of_it(service, user):
    """Section 4: a card's events while its election on it stood, and not after or before."""
    token = user.mint_desk_token()
    before = service.push(service.fanout(), service.platform).json()["signal"]["id"]
    user.post("/desk/withdraw", {}, seen_at="/desk")
    try:
        between = service.push(service.fanout(), service.platform).json()
    finally:
        user.enrol()
    after = service.push(service.fanout(), service.platform).json()["signal"]["id"]
    assert service.own_desk not in [
        desk["userId"] for desk in service.desks(signal=between["signal"]["id"])
    ]
    for view in (
        service.events(token, kind="signal.filled"),
        service.events(userId=service.own_desk, kind="signal.filled"),
    ):
        filled = {event["signal"]["id"] for event in view}
        assert {before, after} <= filled
        assert between["signal"]["id"] not in filled


def test_a_desk_is_not_shown_a_senders_own_references(service, user, bot):
    """Section 4: nonce, traceId, decisionRef, unless the signal is its own automation's."""
    token = user.mint_desk_token()
    bot.elect("AAA/BBB", "long")
    own = service.push(bot.body(pair="AAA/BBB", direction="long"), secret=bot.generate()).json()[
        "signal"
    ]
    nox = service.push(
        service.of_nox(decision_ref="d", userId=service.own_desk), service.platform
    ).json()["signal"]
    seen = {event["position"]: event["signal"] for event in service.events(token)}
    assert seen[own["position"]] == own
    shown = seen[nox["position"]]
    assert shown == {name: value for name, value in nox.items() if name not in SENDERS_OWN}


@pytest.mark.parametrize("mode", ["dry_run", "draft"])
def test_a_dry_run_or_a_draft_for_a_desk_is_addressed_to_it(service, mode):
    """Section 4, the table: the target desk; else the platform only."""
    answer = service.push(service.of_nox(mode=mode, userId=service.desk), service.platform)
    signal = answer.json()["signal"]["id"]
    assert [e["userId"] for e in service.events(service.desk_token, signal=signal)] == [
        service.desk
    ]
    assert service.events(service.other_desk_token, signal=signal) == []


# --- Filters -------------------------------------------------------------------------------------


def test_a_desks_view_is_the_same_to_the_platform(service, history):
    """Section 4: userId, that desk's view, fan-out fills included."""
    own = service.events(service.desk_token)
    assert positions(service.events(userId=service.desk)) == positions(own)
    assert "matched" in service.events(userId=service.desk, signal=history["all"]["id"])[0]["data"]


def test_a_desk_token_sees_nothing_of_another_desk(service):
    """Section 4: unknown ids in a filter give an empty list, and so does another's."""
    assert service.events(service.desk_token, userId=service.desk) != []
    assert service.events(service.desk_token, userId=service.other_desk) == []
    assert service.events(service.desk_token, userId=SOMEBODY) == []
    assert service.events(userId=SOMEBODY) == []
    assert service.events(userId="x") == []
    assert service.events(signal="sig_x") == []


@pytest.mark.once
@pytest.mark.parametrize("name", ["userId", "signal", "botId", "after"])
def test_an_id_in_a_query_has_1_to_128_characters(service, name):
    """Section 4: another length is invalid; of a signal's userId too."""
    for value in ("", "x" * 129):
        answer = service.get(f"{EVENTS}?{name}={value}", service.platform)
        assert_refused(answer, 422, "invalid")
        assert faults(answer) == {name}
    if name != "after":
        assert service.events(**{name: "x" * 128}) == []
    answer = service.push(service.to_desk(userId="x" * 129), service.platform)
    assert_refused(answer, 422, "invalid")
    unknown = service.push(service.to_desk(userId="x" * 128), service.platform)
    assert_refused(unknown, 404, "not_found")


def test_kinds_may_be_named_several_times(service, history):
    """Section 4: kind, repeatable."""
    two = ["signal.filled", "signal.refused"]
    found = service.events(kind=two)
    assert set(kinds(found)) == set(two)
    assert positions(found) == sorted(
        positions(service.events(kind=two[0])) + positions(service.events(kind=two[1]))
    )
    assert positions(service.events(service.desk_token, kind=two)) == [
        event["position"] for event in service.events(service.desk_token) if event["kind"] in two
    ]


def test_filters_narrow_together(service, history):
    asked = {"userId": service.desk, "kind": "signal.filled", "signal": history["all"]["id"]}
    assert positions(service.events(**asked)) == [history["all"]["position"]]
    assert service.events(**{**asked, "kind": "signal.refused"}) == []


def test_a_bots_events_are_found_by_its_id(service, user, history):
    """Section 4: botId, for the platform and for its own desk only."""
    bot_id = history["bot"]["botId"]
    found = service.events(botId=bot_id)
    assert {"signal.filled", "election.made", "secret.generated"} <= set(kinds(found))
    for event in found:
        told = event["signal"] or event["data"]
        assert bot_id in (told.get("botId"), told.get("owner"))
    own = user.mint_desk_token()
    assert positions(service.events(own, botId=bot_id)) == positions(found)
    assert service.events(service.desk_token, botId=bot_id) == []
    assert service.events(userId=service.desk, botId=bot_id) == []
    assert service.events(botId="bot_x") == []
    filled = service.events(botId=bot_id, kind="signal.filled")
    assert positions(filled) == [history["bot"]["position"]]


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_since_and_until_are_times_of_the_log(service, history, order):
    """Section 4: not before since, before until; a cursor goes on with the same filters."""
    whole = service.events(limit=1000)
    since, until = whole[len(whole) // 3]["at"], whole[2 * len(whole) // 3]["at"]
    expected = [event["position"] for event in whole if since <= event["at"] < until]
    found = positions(service.events(since=since, until=until, limit=7, order=order))
    assert found == (expected if order == "asc" else expected[::-1])
    assert positions(service.events(since=whole[-1]["at"]))[-1] >= whole[-1]["position"]
    assert service.events(since="2099-01-01T00:00:00+01:00") == []
    assert service.events(until="2000-01-01T00:00:00Z") == []


def test_a_reader_with_an_end_in_the_future_sees_what_comes(service):
    """Section 4: next always resumes."""
    query = {**FILLS, "until": "2099-01-01T00:00:00Z"}
    page = service.get(EVENTS, service.platform, **query, after=service.tail()).json()
    assert page["events"] == []
    signal = service.push(service.fanout(), service.platform).json()["signal"]
    page = service.get(EVENTS, service.platform, **query, after=page["next"]).json()
    assert positions(page["events"]) == [signal["position"]]


# --- Cursors -------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 7, 1000])
@pytest.mark.parametrize("order", ["asc", "desc"])
def test_whatever_the_limit_and_order_every_event_is_seen_once(service, history, limit, order):
    """Section 4: limit 1 to 1000, oldest first by default."""
    few = ["secret.generated", "secret.ended", "automation.created", "election.withdrawn"]
    whole = positions(service.events(kind=few, limit=1000))
    found = positions(service.events(kind=few, limit=limit, order=order))
    assert len(whole) >= 7
    assert found == (whole if order == "asc" else whole[::-1])


def test_100_are_given_by_default(service, history):
    while len(service.get(EVENTS, service.platform, limit=101).json()["events"]) < 101:
        service.push(service.fanout(), service.platform)
    page = service.get(EVENTS, service.platform).json()
    assert set(page) == {"events", "next", "more"}
    assert (positions(page["events"]), page["more"]) == (list(range(1, 101)), True)


def test_a_cursor_is_always_given_and_always_resumes(service):
    """Section 4: next stands for the last position examined, not the last returned."""
    empty = service.get(EVENTS, service.platform, **FILLS, userId=SOMEBODY).json()
    assert (empty["events"], empty["more"]) == ([], False)
    again = service.get(EVENTS, service.platform, **FILLS, after=empty["next"]).json()
    assert again["events"] == [], "the page examined the whole log"
    signal = service.push(service.fanout(), service.platform).json()["signal"]
    resumed = service.get(EVENTS, service.platform, **FILLS, after=empty["next"]).json()
    assert positions(resumed["events"]) == [signal["position"]]


def test_a_reader_starts_at_the_tail(service):
    """Section 4: with order=desc&limit=1. What is behind that one event comes by going on."""
    page = service.get(EVENTS, service.platform, order="desc", limit=1).json()
    signal = service.push(service.fanout(), service.platform).json()["signal"]
    following = service.get(EVENTS, service.platform, **FILLS, after=page["next"]).json()
    assert positions(following["events"]) == [signal["position"]]


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_a_cursor_that_the_log_cannot_honour_is_refused(service, order):
    """Section 4: cursor_lost, never answered wrongly."""
    answer = service.get(EVENTS, service.platform, after=OF_ANOTHER_LOG, order=order)
    assert_refused(answer, 422, "cursor_lost")


@pytest.mark.once
@pytest.mark.parametrize(
    "query",
    [
        "x=1",
        "after=x",
        "limit=1001",
        "kind=signal.accepted",
        "order=up",
        "wait=26",
        "wait=1&order=desc",
        "since=2026-01-01",
        "since=2026-01-01T00:00:00Z&until=2026-01-01T00:00:00Z",
    ],
)
def test_an_unknown_parameter_or_value_is_refused_never_ignored(service, query):
    """Section 4: this holds for every list."""
    answer = service.get(f"{EVENTS}?{query}", service.platform)
    assert_refused(answer, 422, "invalid")
    assert faults(answer)


def test_a_reader_sees_every_event_exactly_once_while_writers_commit(service):
    """Section 4: while any number of writers commit."""
    start, writing = service.tail(), threading.Event()
    writing.set()

    def write(_):
        with service.client() as own:
            headers = {"Authorization": f"Bearer {service.platform}"}
            for _ in range(SIGNALS_EACH):
                answer = own.post("/api/hooks/signal", json=service.fanout(), headers=headers)
                assert answer.status_code == 200

    def follow(limit):
        after, found, last = start, [], False
        with service.client() as own:
            headers = {"Authorization": f"Bearer {service.platform}"}
            while True:
                query = {"after": after, "limit": limit}
                page = own.get(EVENTS, params=query, headers=headers).json()
                found += positions(page["events"])
                after = page["next"]
                if last and not page["more"]:
                    return found
                last = not writing.is_set() and not page["more"]

    with ThreadPoolExecutor(WRITERS + 2) as pool:
        readers = [pool.submit(follow, limit) for limit in (3, 1000)]
        list(pool.map(write, range(WRITERS)))
        writing.clear()
        seen = [reader.result() for reader in readers]
    whole = positions(service.events(after=start))
    assert seen == [whole, whole]
    assert len(whole) >= WRITERS * SIGNALS_EACH
    assert whole == list(range(whole[0], whole[0] + len(whole)))


# --- Waiting -------------------------------------------------------------------------------------


def test_a_waiting_reader_is_answered_when_something_comes(service, admin):
    """Section 4: wait holds an empty answer until something comes. Who has something does not wait.

    Another reader waits all the time.
    """
    start = service.tail()

    def wait(token, kind):
        return service.get(EVENTS, token, after=start, wait=25, kind=kind)

    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(wait, service.platform, "signal.filled")
        other = pool.submit(wait, service.reader, "token.minted")
        signal = service.push(service.fanout(), service.platform).json()["signal"]
        page = waiting.result().json()
        assert service.get(EVENTS, service.platform, after=start, wait=25).json()["events"]
        assert not other.done()
        with admin.platform_token("read"):
            assert other.result().json()["events"]
    assert positions(page["events"]) == [signal["position"]]


@pytest.mark.parametrize(
    "query", [{"userId": SOMEBODY}, {"since": "2099-01-01T00:00:00Z"}], ids=str
)
def test_a_wait_ends_with_an_empty_answer_that_resumes_at_the_end_of_the_log(service, query):
    """Section 4: 0 to 25 s."""
    began = time.monotonic()
    page = service.get(EVENTS, service.platform, **query, wait=1).json()
    assert time.monotonic() - began >= 0.9
    assert (page["events"], page["more"]) == ([], False)
    signal = service.push(service.fanout(), service.platform).json()["signal"]
    assert positions(service.events(**FILLS, after=page["next"])) == [signal["position"]]


def test_a_waiting_reader_whose_token_is_revoked_sees_nothing(service, admin):
    """Section 4: its token is checked again after the page was read."""
    with (
        admin.platform_token("read") as token,
        ThreadPoolExecutor(1) as pool,
        service.client() as own,
    ):
        headers = {"Authorization": f"Bearer {token['token']}"}
        query = {**FILLS, "after": service.tail(), "wait": 25}
        waiting = pool.submit(own.get, EVENTS, params=query, headers=headers)
        assert admin.api("DELETE", TOKENS, {"id": token["id"]}).status_code == 200
        service.push(service.fanout(), service.platform)
        assert_refused(waiting.result(), 401, "token_invalid")


def test_a_reader_that_waits_keeps_no_other_from_reading(service):
    """Section 7: of a desk token one page is read at a time, and who waits reads none."""
    headers = {"Authorization": f"Bearer {service.other_desk_token}"}

    def read(client, **query):
        """A page, asked for again while another one is read."""
        while (answer := client.get(EVENTS, params=query, headers=headers)).status_code == 429:
            time.sleep(int(answer.headers["Retry-After"]))
        return positions(answer.json()["events"])

    with ThreadPoolExecutor(1) as pool, service.client() as own:
        waiting = pool.submit(read, own, **FILLS, after=service.tail(), wait=25)
        assert all(read(service.http, limit=1) for _ in range(5))
        signal = service.push(service.fanout(), service.platform).json()["signal"]
        assert waiting.result() == [signal["position"]]


def test_beyond_the_waiting_readers_that_may_a_wait_is_answered_at_once(service):
    """Section 4: at most two a token; of many that ask together, the others do not wait."""
    many, start = 24, service.tail()

    def wait():
        with service.client() as own:
            headers = {"Authorization": f"Bearer {service.reader}"}
            query = {**FILLS, "after": start, "wait": 25}
            answer = own.get(EVENTS, params=query, headers=headers)
            assert answer.status_code == 200
            return answer.json()["events"]

    with ThreadPoolExecutor(many) as pool:
        asked = [pool.submit(wait) for _ in range(many)]
        assert next(as_completed(asked)).result() == []
        service.push(service.fanout(), service.platform)
        # Those who waited are answered with the signal: the first one was not the end of a wait.
        assert any(each.result() for each in asked)


# --- Refused signals in the log ------------------------------------------------------------------


def refused_since(service, start, view=None):
    """The refused signals after a cursor, without what stands for suppressed refusals."""
    events = service.events(view, after=start, kind="signal.refused")
    return [event for event in events if not is_count(event)]


def is_count(event):
    """Whether this stands for refusals that are not recorded."""
    return "suppressed" in event["data"]


def test_what_the_law_refuses_of_an_authorised_signal_is_recorded(service, admin):
    """Section 4: section 5's 422 and 409, with what was sent and elected, and the credential."""
    with admin.platform_token("write") as token:
        start = service.tail()
        spent = service.fanout()
        service.push(spent, token["token"])
        sent: list[tuple[dict[str, Any], str]] = [
            ({"pair": "NOT/IT"}, "pair_mismatch"),
            ({"api_key": "x"}, "exchange_secret"),
            ({"pair": "BTCUSDT"}, "ticker_only"),
            ({"mode": "live"}, "mode_refused"),
            ({"elected": False}, "not_elected"),
            ({"direction": "up"}, "invalid"),
            ({"nonce": spent["nonce"], "direction": "short"}, "nonce_used"),
        ]
        for changes, expected in sent:
            assert code(service.push(service.fanout(**changes), token["token"])) == expected
        events = refused_since(service, start)
    assert [event["data"]["code"] for event in events] == [expected for _, expected in sent]
    for event in events:
        assert event["actor"] == {"type": "token", "id": token["id"]}
        assert (event["data"]["source"], event["data"]["botId"]) == ("floor", None)
        assert (event["userId"], event["signal"]) == (None, None)
        assert event["data"]["requestId"]
        nonce = event["data"]["nonce"]
        assert (nonce is None) is (event["data"]["code"] == "exchange_secret")
    assert events[-1]["data"]["nonce"] == spent["nonce"]
    assert events[0]["data"]["sent"] == {**service.elected, "pair": "NOT/IT"}
    assert events[0]["data"]["elected"] == service.elected


def test_of_an_invalid_signal_the_fields_are_recorded(service, user, bot):
    """Section 4, the table: errors as the answer has them, and no value of the body."""
    bot.elect("AAA/BBB", "long")
    start, token = service.tail(), user.mint_desk_token()
    body = bot.body(pair="AAA/BBB", direction="up", nonce="My Long Entry Id")
    answer = service.push(body, secret=bot.generate())
    assert code(answer) == "invalid"
    for view in (token, service.platform):
        (event,) = refused_since(service, start, view)
        assert event["data"]["errors"] == answer.json()["errors"]
        assert {error["field"] for error in event["data"]["errors"]} == {"nonce", "direction"}
        assert "My Long Entry Id" not in str(event)


def test_a_repeated_signal_is_recorded_as_nothing(service, user, bot):
    """Section 4: 409 with identical is a safe retry, and no count, list or notice shows it."""
    bot.elect("AAA/BBB", "long")
    body, secret = bot.body(pair="AAA/BBB", direction="long"), bot.generate()
    assert service.push(body, secret=secret).status_code == 200
    start = service.tail()
    again = service.push(body, secret=secret)
    assert (again.status_code, again.json()["identical"]) == (409, True)
    assert refused_since(service, start) == []
    other = service.push({**body, "direction": "short"}, secret=secret)
    assert (other.status_code, other.json()["identical"]) == (409, False)
    assert [event["data"]["code"] for event in refused_since(service, start)] == ["nonce_used"]


def test_a_refusal_is_addressed_to_its_target(service, admin):
    """Section 4, the table: the target desk, or the bot's owner."""
    with admin.platform_token("write") as token:
        start = service.tail()
        service.push(service.to_desk(pair="NOT/IT"), token["token"])
        service.deploy(service.desk, service.one_desk(elected=None), token["token"])
    for view in (service.desk_token, service.platform):
        events = refused_since(service, start, view)
        assert [event["data"]["code"] for event in events] == ["pair_mismatch", "not_elected"]
        assert {event["userId"] for event in events} == {service.desk}
        assert [set(event["data"]) >= MARKS for event in events] == [view == service.platform] * 2
    assert service.events(service.other_desk_token, after=start) == []


def test_the_owner_of_a_bot_sees_which_request_was_refused(service, user, bot):
    """Section 4, the table: requestId and nonce, for the bot's owner and the platform."""
    token, start = user.mint_desk_token(), service.tail()
    bot.elect("AAA/BBB", "long")
    body = bot.body(pair="NOT/IT", direction="long")
    answer = service.push(body, secret=bot.generate())
    assert code(answer) == "pair_mismatch"
    for view in (token, service.platform):
        event = service.events(view, after=start, kind="signal.refused")[0]
        assert event["data"]["nonce"] == body["nonce"]
        assert event["data"]["requestId"] == answer.json()["requestId"]


def test_of_a_body_that_holds_a_secret_nothing_is_kept(service, admin):
    """Sections 4 and 6: neither kept, logged nor echoed."""
    value = "kX9-exchange-credential-7Qz"
    with admin.platform_token("write") as token:
        start = service.tail()
        body = service.fanout(note={"deep": [{"api_secret": value}]}, pair="PAIR-OF/THAT")
        assert value not in service.push(body, token["token"]).text
        page = service.get(EVENTS, service.platform, after=start)
    assert value not in page.text
    assert "PAIR-OF" not in page.text


def test_a_bad_signature_of_a_known_bot_is_shown_to_its_owner(service, bot):
    """Section 4: for a known botId with a bad signature."""
    bot.elect("AAA/BBB", "long")
    bot.generate()
    body = bot.body(pair="AAA/BBB", direction="long")
    start = service.tail()
    service.push(body, secret=service.floor)
    events = refused_since(service, start)
    assert [event["data"]["code"] for event in events] == ["signature_invalid"]
    assert (events[0]["userId"], events[0]["data"]["botId"]) == (service.own_desk, bot.id)
    assert events[0]["actor"] is None
    assert events[0]["data"]["nonce"] is None
    assert events[0]["data"]["requestId"]


def test_these_are_never_recorded(service):
    """Section 4: timestamp_invalid, scope_missing, malformed headers, refused tokens."""
    body, start = service.to_desk(), service.tail()
    old = {"X-SVC-Timestamp": "1000000000", "X-SVC-Signature": "v1=" + "0" * 64}
    malformed = {"X-SVC-Timestamp": "x", "X-SVC-Signature": "y"}
    for answer, expected in (
        (service.push(body, headers=old), "timestamp_invalid"),
        (service.push(body, headers=malformed), "timestamp_invalid"),
        (service.push(body, service.reader), "scope_missing"),
        (service.push(body, service.desk_token), "not_allowed"),
        (service.push(body, "svc_plat_x"), "token_invalid"),
        (service.push(body), "credentials_missing"),
        (service.push(b"{", service.platform), "malformed"),
        (service.push(service.to_desk(userId=SOMEBODY), service.platform), "not_found"),
        (service.push(body, secret=service.bot["secret"]), "signature_invalid"),
    ):
        assert code(answer) == expected
    assert [event for event in service.events(after=start) if not is_count(event)] == []


def test_at_most_60_refusals_a_minute_of_one_sender_are_recorded(service, admin):
    """Section 4: counted in each worker process. The responses are not limited.

    One event stands for those that are left out.
    """
    with admin.platform_token("write") as token:
        start, began = service.tail(), time.monotonic()
        for _ in range(60 * WORKERS + 10):
            answer = service.push(service.fanout(elected=None), token["token"])
            assert code(answer) == "not_elected"
        within_a_minute = time.monotonic() - began < 60
        counted = service.events(after=start, kind="signal.refused")
    recorded = len(refused_since(service, start))
    assert 60 <= recorded <= 60 * WORKERS or not within_a_minute
    left_out = [event["data"] for event in counted if is_count(event)]
    for data in left_out:
        assert (data["code"], data["suppressed"]) == ("refusals_suppressed", 1)
    assert 1 <= len(left_out) <= WORKERS or not within_a_minute
