"""Section 4, GET /api/v1/me, /api/v1/desks and /api/v1/desks/{userId}: the desk pull."""

import pytest

from tests.conformance.client import (
    DESKS,
    EVENTS,
    ME,
    OF_ANOTHER_LOG,
    SOMEBODY,
    TOKENS,
    assert_refused,
    faults,
)

RECORD = {
    "userId",
    "paper",
    "liveWrites",
    "connected",
    "ready",
    "connection",
    "election",
    "createdAt",
    "updatedAt",
}


def ids(desks):
    return [desk["userId"] for desk in desks]


def test_a_desk_has_these_fields(service):
    """Section 4, me: connection null, or …; election null, or …."""
    desk = service.get(ME, service.desk_token).json()
    assert set(desk) == RECORD
    assert (desk["userId"], desk["paper"], desk["liveWrites"]) == (service.desk, True, False)
    assert (desk["connected"], desk["ready"]) == (True, True)
    assert set(desk["connection"]) == {"venue", "access", "connectedAt"}
    assert desk["connection"]["access"] == "trade-only"
    assert set(desk["election"]) == {"card", "pair", "direction", "electedAt"}
    idle = next(desk for desk in service.desks() if not desk["connected"])
    assert (idle["connection"], idle["election"], idle["ready"]) == (None, None, False)


def test_me_is_for_a_desk_token(service):
    """Section 4, me."""
    for token in (service.platform, service.reader):
        assert_refused(service.get(ME, token), 403, "not_allowed")
    assert_refused(service.get(ME), 401, "credentials_missing")


def test_a_desk_token_sees_its_own_desk_only(service):
    """The customer's section 5, 2."""
    assert service.get(ME, service.other_desk_token).json()["userId"] == service.other_desk
    for path in (DESKS, f"{DESKS}/{service.desk}", f"{DESKS}/{service.other_desk}"):
        assert_refused(service.get(path, service.desk_token), 403, "not_allowed")


def test_the_list_is_paper_and_its_records_are_whole(service):
    """Section 4, desks."""
    page = service.get(DESKS, service.reader).json()
    assert set(page) == {"paper", "liveWrites", "desks", "asOf", "next"}
    assert (page["paper"], page["liveWrites"]) == (True, False)
    assert page["desks"]
    assert all(set(desk) == RECORD for desk in page["desks"])


def test_an_unknown_desk_is_not_found(service):
    """Section 5: no such path or desk."""
    for user_id in (SOMEBODY, "usr_", "x", service.bot["botId"], "usr_%00", "usr_" + "0" * 5000):
        path = f"{DESKS}/{user_id}"
        answer = service.get(path, service.platform)
        if answer.status_code != 414:  # the server refuses the longest before it is a request
            assert_refused(answer, 404, "not_found")


@pytest.mark.parametrize("name", ["ready", "connected"])
def test_a_filter_and_its_opposite_share_out_all_desks(service, name):
    """Section 4, desks: 1 or 0."""
    yes, no = service.desks(**{name: "1"}), service.desks(**{name: "0"})
    assert all(desk[name] for desk in yes)
    assert not any(desk[name] for desk in no)
    assert sorted(ids(yes + no)) == sorted(ids(service.desks()))
    assert service.desks(ready="1", connected="0") == [], "filters narrow together"


@pytest.mark.parametrize("limit", [1, 7, 1000])
def test_whatever_the_limit_every_desk_is_seen_exactly_once_in_one_order(service, limit):
    """Section 4, desks: limit 1 to 1000, 100 by default; next leads on."""
    whole = ids(service.desks())
    assert ids(service.desks(limit=limit)) == whole
    assert len(set(whole)) == len(whole) >= 10
    page = service.get(DESKS, service.platform, limit=limit).json()
    assert len(page["desks"]) == min(limit, len(whole))
    assert (page["next"] is None) == (limit >= len(whole))


def test_the_desks_that_a_signal_filled(service):
    """Section 4, desks: signal; an unknown one gives an empty list."""
    everybody = service.push(service.fanout(), service.platform).json()
    one = service.push(service.to_desk(), service.platform).json()
    of_bot = service.push(service.tradingview(), secret=service.bot["secret"]).json()
    dry = service.push(service.of_nox(mode="dry_run"), service.platform).json()
    assert sorted(ids(service.desks(signal=everybody["signal"]["id"]))) == sorted(
        ids(service.desks(ready="1"))
    )
    assert ids(service.desks(signal=everybody["signal"]["id"], limit=3)) == ids(
        service.desks(signal=everybody["signal"]["id"])
    )
    assert ids(service.desks(signal=one["signal"]["id"])) == [service.desk]
    assert ids(service.desks(signal=of_bot["signal"]["id"])) == [service.own_desk]
    assert service.desks(signal=dry["signal"]["id"]) == []
    for unknown in ("sig_" + "0" * 22, "x", "'", "%"):
        assert service.desks(signal=unknown) == []


def test_a_cursor_is_good_for_its_list_only(service):
    """Section 4: a next of another list is refused."""
    platform, one = service.platform, {"limit": 1}
    of_desks = service.get(DESKS, platform, **one).json()["next"]
    of_ready = service.get(DESKS, platform, ready=1, **one).json()["next"]
    of_events = service.get(EVENTS, platform, **one).json()["next"]
    for path, query in (
        (DESKS, {"after": of_ready}),
        (DESKS, {"after": of_events}),
        (DESKS, {"after": of_desks, "ready": 1}),
        (DESKS, {"after": of_ready, "connected": 1}),
        (EVENTS, {"after": of_desks}),
        (TOKENS, {"after": of_desks}),
    ):
        answer = service.get(path, platform, **query)
        assert_refused(answer, 422, "invalid")
        assert faults(answer) == {"after"}
    assert service.get(DESKS, platform, after=of_ready, ready=1, limit=3).status_code == 200


@pytest.mark.once
@pytest.mark.parametrize(
    "query",
    [
        *("x=1", "ready=true", "ready=1&ready=1", "limit=1001", "after=x"),
        pytest.param("a" + "&a" * 1500, id="many"),
    ],
)
def test_an_unknown_parameter_or_value_is_refused_never_ignored(service, query):
    """Section 4: this holds for every list; 422 invalid, naming the field."""
    answer = service.get(f"{DESKS}?{query}", service.platform)
    assert_refused(answer, 422, "invalid")
    assert faults(answer)


def test_a_reader_follows_the_desks_that_changed(service, bot):
    """Section 4, desks: changes. asOf is a cursor of the feed, the same on every page."""
    platform = service.platform
    first = service.get(DESKS, platform, limit=1).json()
    later = service.get(DESKS, platform, limit=1, after=first["next"]).json()
    assert first["asOf"] == later["asOf"]
    beginning = service.get(EVENTS, platform, limit=1).json()["next"]
    changed = service.get(DESKS, platform, changedSince=beginning, limit=1000).json()
    assert set(changed) == {"paper", "liveWrites", "desks", "asOf", "next", "cardChanged"}
    listed = [desk for desk in changed["desks"] if not desk.get("removed")]
    assert sorted(ids(listed)) == sorted(ids(service.desks()))
    assert all(set(desk) == RECORD for desk in listed)
    since = changed["asOf"]
    now = service.get(DESKS, platform, changedSince=since).json()
    assert (now["desks"], now["cardChanged"], now["next"]) == ([], False, None)
    assert service.get(EVENTS, platform, after=since).status_code == 200
    bot.elect("AAA/BBB", "long")
    now = service.get(DESKS, platform, changedSince=since).json()
    assert ids(now["desks"]) == [service.own_desk]


def test_a_desk_that_changes_while_the_list_is_read_is_listed_again(service, bot):
    """Section 4, desks: at its end, whatever page it was on before."""
    since = service.get(EVENTS, service.platform, limit=1).json()["next"]
    query = {"changedSince": since, "limit": 2}
    page = service.get(DESKS, service.platform, **query).json()
    bot.elect("AAA/BBB", "long")
    listed = ids(page["desks"])
    while page["next"]:
        page = service.get(DESKS, service.platform, after=page["next"], **query).json()
        listed += ids(page["desks"])
    assert listed[-1] == service.own_desk
    assert set(listed) >= set(ids(service.desks()))


def test_the_desks_that_changed_take_no_other_filter(service):
    """Section 4, desks: without the three filters."""
    since = service.get(DESKS, service.platform).json()["asOf"]
    for name, value in (("ready", 1), ("connected", 1), ("signal", "x")):
        answer = service.get(DESKS, service.platform, changedSince=since, **{name: value})
        assert_refused(answer, 422, "invalid")
        assert faults(answer) == {name}
    for wrong in ("x", "", service.get(DESKS, service.platform, limit=1).json()["next"]):
        answer = service.get(DESKS, service.platform, changedSince=wrong)
        assert_refused(answer, 422, "invalid")
        assert faults(answer) == {"changedSince"}


def test_a_cursor_of_another_log_is_lost(service):
    """Section 4, desks: cursor_lost where the feed refuses one."""
    answer = service.get(DESKS, service.platform, changedSince=OF_ANOTHER_LOG)
    assert_refused(answer, 422, "cursor_lost")
