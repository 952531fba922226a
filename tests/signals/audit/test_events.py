"""The audit finds a tampered log: changed members, a changed order, added or removed events."""

import copy
from datetime import timedelta
from operator import attrgetter
from typing import Any

import pytest
from django.db.models import F

from desks.ids import USER
from desks.models import Automation, Card, Connection, Desk, Election
from events.kinds import Kind
from events.models import Event, Head
from events.times import to_rfc3339
from signals.audit.findings import MAX_EXAMPLES
from signals.intake.models import Signal
from tests.signals.audit.stage import (
    broken,
    broken_by,
    named,
    rolled_back,
    spoken_of,
    with_event,
    with_values,
)
from tokens.choices import Source
from tokens.models import SigningSecret, Token

pytestmark = [pytest.mark.django_db, pytest.mark.slow, pytest.mark.once]

KINDS = [kind for kind in Kind if kind != Kind.SIGNAL_REFUSED]
# Kinds of a desk, of the platform and of signals, for what the audit asks of every event.
SOME_KINDS = [Kind.DESK_CONNECTED, Kind.TOKEN_MINTED, Kind.SIGNAL_FILLED]


def the_last(kind, **of):
    return Event.objects.filter(kind=kind, **of).latest("position")


def the_last_read(stored, kind):
    """The last event of a kind among what was read."""
    events = (event for event in stored.events if event.kind == kind)
    return max(events, key=attrgetter("position"))


def change(event, **columns):
    Event.objects.filter(pk=event.pk).update(**columns)


# --- The content of an event ----------------------------------------------------------------------


def members(content, path=()):
    """The paths of all members of an event's JSON, at any depth."""
    for name, value in content.items():
        yield (*path, name)
        if isinstance(value, dict):
            yield from members(value, (*path, name))


def forged(content, path):
    """A copy with another value at a path."""
    content = copy.deepcopy(content)
    at = content
    for name in path[:-1]:
        at = at[name]
    value = at[path[-1]]
    at[path[-1]] = "forged" if not isinstance(value, int) else value + 6
    return content


# No row repeats it: a runner moves the cursor on.
ONLY_IN_THE_LOG = {(Kind.SUBSCRIPTION_REWOUND, "data", name) for name in ("position", "skipped")}


OF_SIGNALS = [kind for kind in KINDS if kind.startswith("signal.")]
# The platform sees more than a desk does of signals only.
CONTENTS = [(kind, "content") for kind in KINDS]
CONTENTS += [(kind, "platform_content") for kind in OF_SIGNALS]


def test_a_change_of_any_member_of_any_kind_of_event_is_found(stored):
    missed = set()
    for kind, column in CONTENTS:
        event = the_last_read(stored, kind)
        content = getattr(event, column)
        for path in members(content):
            other = with_values(stored, event, **{column: forged(content, path)})
            if not spoken_of(event) & named(broken_by(other)):
                missed.add((kind, *path))
    assert missed <= ONLY_IN_THE_LOG


def test_a_number_of_skipped_events_that_no_skip_has_is_found(stored):
    event = the_last_read(stored, Kind.SUBSCRIPTION_REWOUND)
    for skipped in (0, 1001, "three", [3]):
        content = {**event.content, "data": {**event.data, "skipped": skipped}}
        found = broken_by(with_values(stored, event, content=content))
        assert spoken_of(event) & named(found), skipped


def test_an_event_with_any_wrong_content_is_reported(stored):
    wrong = [
        (the_last_read(stored, kind), {column: value})
        for kind in SOME_KINDS
        for column in ("content", "platform_content")
        for value in ({}, [], "text", 7, {"signal": 1, "data": [1]})
    ]
    assert not_named(stored, wrong) == []


def not_named(stored, changes):
    """The events that the audit does not name although they have these other values."""
    return [
        (event, values)
        for event, values in changes
        if not {event.id, event.signal_id} & named(broken_by(with_values(stored, event, **values)))
    ]


def test_an_added_or_removed_member_is_found(stored):
    events = [the_last_read(stored, kind) for kind in KINDS]
    added = [(event, {**event.data, "more": 1}) for event in events]
    removed = [(event, dict(list(event.data.items())[1:])) for event in events if event.data]
    changes = [
        (event, {"content": {**event.content, "data": data}}) for event, data in added + removed
    ]
    assert not_named(stored, changes) == []


def test_an_event_of_another_kind_is_found(stored):
    kinds = list(Kind)
    others = [(kind, kinds[kinds.index(kind) - 1]) for kind in KINDS]
    # No kind, and the only one that describes no row.
    others += [(kind, other) for kind in SOME_KINDS for other in ("made.up", Kind.SIGNAL_REFUSED)]
    assert missed_with(stored, "kind", others) == []


def missed_with(stored, column, values):
    """The kinds whose last event may have another value without a broken promise."""
    return [
        (kind, value)
        for kind, value in values
        if not broken_by(with_values(stored, the_last_read(stored, kind), **{column: value}))
    ]


def test_an_event_with_the_topic_of_another_desk_is_found(stored):
    one, two = sorted({event.owner for event in stored.events if event.owner.startswith(USER)})[:2]
    topics = [(kind, two if the_last_read(stored, kind).topic == one else one) for kind in KINDS]
    topics += [
        (kind, topic)  # of no desk
        for kind in SOME_KINDS
        for topic in (None, "all", "usr_nobody", "nobody")
        if topic != the_last_read(stored, kind).topic
    ]
    assert missed_with(stored, "topic", topics) == []


# --- The order of events --------------------------------------------------------------------------


def test_deleted_events_are_found(falsified):
    """As many as a finding names."""
    gone = Event.objects.order_by("position")[7::40][:MAX_EXAMPLES]
    names = [event.id for event in gone]
    Event.objects.filter(pk__in=[event.pk for event in gone]).delete()
    assert broken()["positions"] == names


def test_deleting_the_last_event_is_found_even_if_the_head_is_reset(falsified):
    last = the_last(Kind.SIGNAL_FILLED)
    Event.objects.filter(position__gte=last.position).delete()
    Head.objects.update(position=last.position - 1)
    assert "signals" in broken()


def test_a_wrong_head_is_found(falsified):
    for step in (1, -1):
        with rolled_back():
            Head.objects.update(position=F("position") + step)
            assert broken() == {"positions": ["head"]}


def test_an_event_repeated_at_the_end_is_found(stored):
    last = max(stored.events, key=attrgetter("position"))
    end = {"position": last.position + 1, "at": last.at}
    repeated = [the_last_read(stored, kind)._replace(**end) for kind in KINDS]
    missed = [event.kind for event in repeated if not broken_by(with_event(stored, event))]
    assert missed == []


def put_at_the_end(event):
    Head.objects.update(position=F("position") + 1)
    return Head.objects.get().position


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Kind.DESK_CREATED, Kind.DESK_CONNECTED),
        (Kind.DESK_CONNECTED, Kind.ELECTION_MADE),
        (Kind.AUTOMATION_CREATED, Kind.AUTOMATION_REMOVED),
        (Kind.TOKEN_MINTED, Kind.TOKEN_REVOKED),
        (Kind.SECRET_GENERATED, Kind.SECRET_ENDED),
        (Kind.DESK_DEACTIVATED, Kind.DESK_REACTIVATED),
    ],
)
def test_two_swapped_events_of_a_desk_are_found(falsified, one, other):
    topic = Event.objects.filter(kind=other, topic__startswith="usr_").last().topic
    swap(the_last(one, topic=topic), the_last(other, topic=topic))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Kind.CARD_RETIRED, Kind.CARD_PUBLISHED),
        (Kind.SIGNAL_FILLED, Kind.SIGNAL_RECORDED),
        (Kind.SECRET_ENDED, Kind.SECRET_GENERATED),
        (Kind.CARD_PUBLISHED, Kind.ELECTION_MADE),
    ],
)
def test_two_swapped_events_are_found(falsified, one, other):
    swap(the_last(one), the_last(other))


def swap(first, second):
    places = [(first.position, second), (second.position, first)]
    Event.objects.filter(pk__in=[first.pk, second.pk]).delete()
    for position, event in places:
        event.position = position
        event.save(force_insert=True)
    assert broken()


def test_a_time_that_goes_backwards_is_found(falsified):
    refused = the_last(Kind.SIGNAL_REFUSED)
    change(refused, at=refused.at - timedelta(hours=1))
    assert broken() == {"times": [refused.id]}


def test_a_refusal_with_a_signal_id_is_found(falsified):
    refused = the_last(Kind.SIGNAL_REFUSED)
    change(refused, signal_id=Signal.objects.latest("position").public_id)
    assert broken() == {"events": [f"{refused.id} (signal)"]}


@pytest.mark.parametrize("mark", ["requestId", "nonce"])
def test_a_refusal_without_what_names_its_request_is_found(falsified, mark):
    refused = next(e for e in Event.objects.filter(kind=Kind.SIGNAL_REFUSED) if e.bot_id)
    content = {**refused.content, "data": {**refused.content["data"]}}
    del content["data"][mark]
    change(refused, content=content)
    assert broken() == {"events": [f"{refused.id} (what the desk sees)"]}


def test_a_refusal_that_shows_a_desk_the_nonce_of_another_sender_is_found(falsified):
    refused = next(e for e in Event.objects.filter(kind=Kind.SIGNAL_REFUSED) if not e.bot_id)
    content = {**refused.content, "data": {**refused.content["data"], "nonce": "n"}}
    change(refused, content=content)
    assert broken() == {"events": [f"{refused.id} (what the desk sees)"]}


# --- Added and removed rows -----------------------------------------------------------------------

TABLES = {
    Desk: "desks",
    Connection: "connections",
    Card: "cards",
    Election: "elections",
    Automation: "automations",
    Token: "tokens",
    SigningSecret: "secrets",
    Signal: "signals",
}
OF_ITS_OWN: dict[Any, dict[str, Any]] = {
    Desk: {"public_id": "usr_forged", "changed": 1_000_000},
    Card: {"id": "card_forged", "opened": 1_000_000, "closed": 1_000_001},
    Election: {"opened": 1_000_000, "closed": None, "reason": None},
    Automation: {"id": "bot_forged"},
    Token: {"public_id": "tok_forged", "digest": "forged"},
    SigningSecret: {"public_id": "sec_forged"},
    Signal: {"public_id": "sig_forged", "nonce": "forged", "position": 1_000_000},
}


@pytest.mark.parametrize("model", TABLES)
@pytest.mark.parametrize("which", ["first", "last"])
def test_a_deleted_row_is_found(falsified, model, which):
    row = getattr(model.objects.order_by("pk"), which)()
    model.objects.filter(pk=row.pk)._raw_delete("default")
    assert TABLES[model] in broken()


@pytest.mark.parametrize("model", OF_ITS_OWN)
def test_an_added_row_is_found(falsified, model):
    row = model.objects.order_by("pk").last()
    if "id" not in OF_ITS_OWN[model]:
        row.pk = None
    for name, value in OF_ITS_OWN[model].items():
        setattr(row, name, value)
    if model is Desk:
        row.user_id = 1_000_000
    row.save(force_insert=True)
    assert TABLES[model] in broken()


@pytest.mark.parametrize("model", [Connection, Election, Automation, Token, SigningSecret])
def test_a_row_of_a_missing_desk_or_bot_is_found(falsified, model):
    row = model.objects.order_by("pk").last()
    row.pk = None if "id" not in OF_ITS_OWN.get(model, {}) else row.pk
    for name, value in OF_ITS_OWN.get(model, {}).items():
        setattr(row, name, value)
    if model is SigningSecret:
        row.automation_id = "bot_nobody"
    else:
        row.desk_id = 1_000_000
    row.save(force_insert=True)
    assert TABLES[model] in broken()


def test_a_desk_token_without_a_desk_is_found(falsified):
    token = Token.objects.filter(scope="desk").last()
    token.pk, token.public_id, token.digest, token.desk = None, "tok_forged", "forged", None
    token.save(force_insert=True)
    assert broken() == {"tokens": ["tok_forged (not in the log)"]}


def test_an_added_connection_is_found(falsified):
    desk = Desk.objects.filter(connection=None, deactivated=False).first()
    Connection.objects.create(desk=desk, venue="Kraken", connected_at=desk.created_at)
    assert broken() == {
        "connections": [f"{desk.public_id} (not in the log)"],
    }


# --- The same change in the log and in a table ----------------------------------------------------


def forge(signal, **changes):
    """Adds a signal and its matching event at the end of the log."""
    signal.position = put_at_the_end(signal)
    signal.public_id, signal.nonce = "sig_forged", "forged"
    signal.received_at = Event.objects.latest("position").at
    for name, value in changes.items():
        setattr(signal, name, value)
    signal.save(force_insert=True)
    Event.objects.create(
        position=signal.position,
        kind=f"signal.{signal.outcome}",
        at=signal.received_at,
        actor_type="token" if signal.credential.startswith("tok_") else "secret",
        actor_id=signal.credential,
        topic=signal.user_id or signal.card_id,
        signal_id=signal.public_id,
        content={"signal": signal.visible_to_desks(signal.to_dict()), "data": {}},
        platform_content={
            "signal": signal.to_dict(),
            "data": {"matched": signal.matched, "filled": signal.filled},
        },
    )


def a_fan_out():
    return Signal.objects.filter(fanout=True, user_id=None, outcome="filled").latest("position")


def a_deploy():
    deploys = Signal.objects.filter(source=Source.FLOOR, fanout=False)
    return deploys.filter(credential__startswith="tok_").latest("position")


def a_push():
    return Signal.objects.exclude(bot_id=None).latest("position")


@pytest.mark.parametrize("what", [a_fan_out, a_deploy, a_push])
def test_a_consistent_forgery_is_not_detected(falsified, what):
    forge(what())
    assert broken() == {}


@pytest.mark.parametrize("what", [a_fan_out, a_deploy, a_push])
@pytest.mark.parametrize("changes", [{"pair": "DOGE/USDT"}, {"direction": "short"}])
def test_a_signal_without_a_matching_election_is_found(falsified, what, changes):
    forge(what(), **changes)
    found = broken()
    assert "consent" in found
    assert named(found) == {"sig_forged"}


@pytest.mark.parametrize("number", [-1, 1, 7])
def test_a_fan_out_with_a_wrong_count_is_found(falsified, number):
    whole = a_fan_out()
    forge(whole, matched=whole.matched + number, filled=whole.matched + number)
    assert broken() == {"consent": ["sig_forged (matched)"]}


def test_a_fill_of_a_desk_without_an_election_is_found(falsified):
    for desk in Desk.objects.filter(enrolled=None):
        with rolled_back():
            forge(a_deploy(), user_id=desk.public_id)
            assert named(broken()) == {"sig_forged"}


def test_a_fill_of_an_unknown_desk_is_found(falsified):
    forge(a_deploy(), user_id="usr_nobody")
    assert "consent" in broken()


def revoked_token():
    return Token.objects.filter(scope="platform").exclude(revoked_at=None).first().public_id


def reading_token():
    return Token.objects.filter(scope="desk", revoked_at=None).first().public_id


def ended_secret():
    last = Event.objects.latest("position").at
    return SigningSecret.objects.filter(source=Source.FLOOR, ends_at__lte=last).first().public_id


def secret_of_nox():
    return SigningSecret.objects.filter(source=Source.NOX, ends_at=None).first().public_id


def secret_of_another_bot():
    return SigningSecret.objects.exclude(automation=None).order_by("-id").first().public_id


@pytest.mark.parametrize("what", [a_fan_out, a_deploy, a_push])
@pytest.mark.parametrize(
    "credential",
    [
        revoked_token,
        reading_token,
        ended_secret,
        secret_of_nox,
        secret_of_another_bot,
        lambda: "tok_nobody",
    ],
)
def test_a_signal_with_an_invalid_credential_is_found(falsified, what, credential):
    forge(what(), credential=credential())
    found = broken()
    assert "credentials" in found
    assert named(found) == {"sig_forged"}


def test_a_signal_at_the_moment_at_which_its_token_expires_is_found(falsified):
    """Its last one. Sets the expiry both in the log and in the table."""
    name = a_fan_out().credential
    moment = Signal.objects.filter(credential=name).latest("position").received_at
    minted = Event.objects.get(kind=Kind.TOKEN_MINTED, content__data__id=name)
    data = {**minted.content["data"], "expiresAt": to_rfc3339(moment)}
    change(minted, content={"signal": None, "data": data})
    Token.objects.filter(public_id=name).update(expires_at=moment)
    assert "credentials" in broken()


def test_a_signal_with_a_token_that_may_only_read_is_found(falsified):
    """Takes the scope away both in the log and in the table."""
    name = a_fan_out().credential
    minted = Event.objects.get(kind=Kind.TOKEN_MINTED, content__data__id=name)
    data = {**minted.content["data"], "scopes": ["read"]}
    change(minted, content={"signal": None, "data": data})
    Token.objects.filter(public_id=name).update(can_write=False)
    assert "credentials" in broken()


def test_a_webhook_that_was_moved_to_its_own_event_is_found(falsified):
    event = the_last(Kind.SUBSCRIPTION_REWOUND)
    data = {**event.data, "position": event.position}
    change(event, content={**event.content, "data": data})
    assert spoken_of(event) & named(broken())


def test_the_floor_secret_signs_for_nox_only_until_there_is_one_of_nox(falsified):
    floor_secret = SigningSecret.objects.get(source=Source.FLOOR, ends_at=None).public_id
    signed = Signal.objects.filter(source=Source.NOX, mode="paper", fanout=True).latest("position")
    forge(signed, credential=floor_secret)
    assert "credentials" in broken()


def test_impossible_elections_are_found(falsified):
    """Adds an election of a desk that was not connected, both in the log and in the table."""
    made = the_last(Kind.ELECTION_MADE, content__data__cardId__isnull=False)
    idle = Desk.objects.filter(connected=False, deactivated=False).first()
    Event.objects.create(
        position=put_at_the_end(made),
        kind=made.kind,
        at=Event.objects.latest("position").at,
        actor_type="system",
        topic=idle.public_id,
        content=made.content,
    )
    election = Election.objects.get(opened=made.position)
    election.pk, election.desk, election.opened = None, idle, Head.objects.get().position
    election.save(force_insert=True)
    assert f"evt_{election.opened} (connected was False)" in broken()["events"]


def test_a_head_clock_before_the_last_event_is_found(falsified):
    with rolled_back():
        Head.objects.update(at=Event.objects.latest("position").at - timedelta(milliseconds=1))
        assert broken() == {"times": ["head"]}
