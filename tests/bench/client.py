"""The process of ``tests.bench.large``: the service in itself, on the database of DATABASE_URL.

It takes a command a line, as JSON, and answers each with a line. Requests run one after the other,
without a network or a server of HTTP, so a time is that of the service and of its database, which
must be on this machine.
"""

import json
import os
import re
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import django

django.setup()

from django.db import connection  # noqa: E402 - after the settings
from django.test import Client  # noqa: E402
from django.test.utils import CaptureQueriesContext, setup_test_environment  # noqa: E402
from django.urls import reverse  # noqa: E402

from desks.models import Automation, Desk, User  # noqa: E402
from events.models import Event, Head  # noqa: E402
from signals.intake.models import Signal  # noqa: E402
from tests.client import BOTS, DESKS, EVENTS, HOOK, deploy_path, get, post, signed_in  # noqa: E402
from tests.client import Response as Answer  # noqa: E402
from tests.staff import a_client, list_of  # noqa: E402
from tokens.models import Token  # noqa: E402

WRITES = re.compile(r"\b(INSERT INTO|UPDATE|DELETE FROM)\b")
PLANNED = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH|\()")
Ask = Callable[[], Answer]


class Service:
    """The service, and what is asked of it, by name."""

    def __init__(self, seed: Mapping[str, Any]) -> None:
        self.seed, self.token = seed, seed["platformToken"]
        self.desks = [desk["userId"] for desk in seed["desks"]]
        self.asks: dict[str, Ask] = {}

    # --- Commands ---------------------------------------------------------------------------------

    def copied(self) -> int:
        """Sends what ``history`` copies. Returns the position before it."""
        head = Head.objects.get().position
        pair = self.seed["automation"]
        for accepted in (self._deploy(), self._fan_out(), self._push()):
            assert accepted.status_code == 200, accepted.content
        other = "long" if pair["direction"] == "short" else "short"
        for refused in (self._push(direction=other), self._fan_out(pair="NO/SUCH")):
            assert refused.status_code >= 400, refused.content
        assert Head.objects.get().position == head + 5
        return head

    def kinds(self) -> list[str]:
        """Prepares the requests. Returns their names."""
        self.asks = (
            self._writes() | self._feeds() | self._lists() | self._activity() | self._staff()
        )
        return list(self.asks)

    def ask(self, kind: str) -> tuple[float, float]:
        """The milliseconds of one request, and those of the processor, the database's included."""
        began, used = time.perf_counter(), _processor()
        answer = self.asks[kind]()
        took, used = time.perf_counter() - began, _processor() - used
        assert answer.status_code in (200, 302), f"{kind}: {answer.status_code} {answer.content!r}"
        return took * 1000, used * 1000

    def plans(self, kind: str) -> list[tuple[str, str]]:
        """Each statement of one request with its plan. Reads are executed once more for it."""
        with CaptureQueriesContext(connection) as queries:
            self.ask(kind)
        return [
            (query["sql"], _plan(query["sql"])) for query in queries if PLANNED.match(query["sql"])
        ]

    # --- Requests ---------------------------------------------------------------------------------

    def _writes(self) -> dict[str, Ask]:
        return {"deploy": self._deploy, "signed push": self._push, "fan-out": self._fan_out}

    def _deploy(self) -> Answer:
        return post(deploy_path(self.desks[0]), self._signal(self.seed["card"]), self.token)

    def _fan_out(self, **changes: str) -> Answer:
        body = self._signal(self.seed["card"], fanout=True, **changes)
        return post(HOOK, body, self.token)

    def _push(self, **changes: str) -> Answer:
        bot = self.seed["automation"]
        body = self._signal(bot, botId=bot["botId"], source="tradingview", **changes)
        return post(HOOK, body, secret=bot["secret"])

    def _signal(self, elected: Mapping[str, str], **more: object) -> dict[str, object]:
        same = {"pair": elected["pair"], "direction": elected["direction"], "elected": True}
        return {**same, "source": "floor", "nonce": uuid.uuid4().hex, **more}

    def _feeds(self) -> dict[str, Ask]:
        """Pages of 100 events: from the beginning, the middle and the end of the log."""
        bot, busy, quiet = self.seed["automation"]["botId"], self.desks[0], self.desks[1]
        views: dict[str, dict[str, str]] = {
            "all": {},
            "kind=signal.filled": {"kind": "signal.filled"},
            "kind=signal.refused": {"kind": "signal.refused"},
            "kind=desk.created": {"kind": "desk.created"},
            "kind=token.revoked, none": {"kind": "token.revoked"},
            "botId": {"botId": bot},
            "botId and kind=signal.refused": {"botId": bot, "kind": "signal.refused"},
            "userId, busy": {"userId": busy},
            "userId": {"userId": quiet},
            "userId and kind=signal.refused": {"userId": quiet, "kind": "signal.refused"},
        }
        ends = self._cursors()
        asks: dict[str, Ask] = {}
        for view, parameters in views.items():
            for place, after in ends.items():
                asks[f"feed, {view}, {place}"] = self._read(EVENTS, **parameters, after=after)
            asks[f"feed, {view}, newest"] = self._read(EVENTS, **parameters, order="desc")
        signal = Signal.objects.order_by("position")[5:6].get().public_id
        asks["feed, signal"] = self._read(EVENTS, signal=signal)
        since, until = self._days()
        asks["feed, since and until"] = self._read(EVENTS, since=since, until=until)
        own = self.seed["desks"][1]["deskToken"]
        for place, after in ends.items():
            asks[f"feed of a desk, {place}"] = partial(get, f"{EVENTS}?after={after}", own)
        return asks

    def _cursors(self) -> dict[str, str]:
        """Cursors at the beginning and the middle of the long log, and 1,000 before its end."""
        head = Head.objects.get().position
        places = {"begin": head // 1000 + 2000, "middle": head // 2, "end": head - 1000}
        return {place: self._cursor(position) for place, position in places.items()}

    def _cursor(self, position: int) -> str:
        """A cursor behind the event at a position."""
        name = Signal.objects.filter(position__gte=position).order_by("position")[:1].get()
        found = self._read(EVENTS, signal=name.public_id, order="desc", limit="1")()
        return str(found.json()["next"])

    def _days(self) -> tuple[str, str]:
        """An hour in the middle of the log."""
        head = Head.objects.get()
        at = Event.objects.get(position=head.position // 2).at
        return at.isoformat(), (at + timedelta(hours=1)).isoformat()

    def _lists(self) -> dict[str, Ask]:
        signal = Signal.objects.filter(fanout=True).order_by("position")[:1].get().public_id
        return {
            "desks": self._read(DESKS),
            "desks, signal": self._read(DESKS, signal=signal),
            "bots of a desk": partial(get, BOTS, self.seed["desks"][0]["deskToken"]),
        }

    def _read(self, path: str, **parameters: str) -> Ask:
        return partial(get, f"{path}?{urlencode(parameters)}" if parameters else path, self.token)

    def _activity(self) -> dict[str, Ask]:
        """The pages of the owner of the busy desk."""
        desk = Desk.objects.get(public_id=self.desks[0])
        browser = signed_in(desk.user)
        bot = Automation.objects.get(pk=self.seed["automation"]["botId"])
        head = Head.objects.get().position
        middle = Event.objects.filter(topic=desk.public_id, position__gt=head // 2).order_by(
            "position"
        )
        event = middle[:1].get()
        signal = middle.filter(signal_id__isnull=False)[:1].get().signal_id
        day = f"{event.at:%Y-%m-%d}"
        pages = {
            "activity": {},
            "activity, kind": {"kind": "signal.refused"},
            "activity, kind that is rare": {"kind": "desk.created"},
            "activity, bot": {"bot": bot.pk},
            "activity, refusal": {"code": "direction_mismatch"},
            "activity, refusal, none": {"code": "pair_mismatch"},
            "activity, pair": {"pair": self.seed["automation"]["pair"]},
            "activity, pair, none": {"pair": "NO/SUCH"},
            "activity, one day": {"since": day, "until": day},
            "activity, bot and one day": {"bot": bot.pk, "since": day, "until": day},
            "activity, search of an event": {"q": event.id},
            "activity, search of a signal": {"q": signal},
        }
        asks = {
            name: _page(browser, reverse("activity"), parameters)
            for name, parameters in pages.items()
        }
        asks["activity, one event"] = _page(browser, reverse("event", args=[event.id]))
        asks["home page of a desk"] = _page(browser, reverse("home"))
        asks["bot board"] = _page(browser, reverse("bots"))
        asks["page of a bot"] = _page(browser, reverse("bot", args=[bot.pk]))
        return asks

    def _staff(self) -> dict[str, Ask]:
        """The control area."""
        browser = a_client(User.objects.get(email=self.seed["admin"]["email"]))
        head = Head.objects.get().position
        signal = Signal.objects.filter(position__gt=head // 2).order_by("position")[:1].get()
        token = Token.objects.filter(desk=None).order_by("pk")[:1].get().public_id
        searches = {
            "": {},
            ", kind": {"kind": "signal.refused"},
            ", kind that is rare": {"kind": "card.published"},
            ", reason and source": {"reason": "pair_mismatch", "source": "floor"},
            ", reason, none": {"reason": "nonce_used"},
            ", search of an event": {"q": f"evt_{head // 2}"},
            ", search of a signal": {"q": signal.public_id},
            ", search of a desk": {"q": self.desks[1]},
            ", search of a token": {"q": token},
            ", search of a bot": {"q": self.seed["automation"]["botId"]},
            ", search of a nonce": {"q": signal.nonce},
            ", search of another text": {"q": "ngine"},
        }
        asks = {
            f"control, log{name}": _page(browser, list_of(Event), parameters)
            for name, parameters in searches.items()
        }
        asks["control, overview"] = _page(browser, reverse("admin:index"))
        asks["control, desks"] = _page(browser, list_of(Desk))
        asks["control, search of desks"] = _page(browser, list_of(Desk), {"q": self.desks[1]})
        return asks


def _page(browser: Client, path: str, parameters: Mapping[str, str] | None = None) -> Ask:
    return partial(browser.get, f"{path}?{urlencode(parameters)}" if parameters else path)


def _processor() -> float:
    """The seconds of the processor that this process and its PostgreSQL's have taken."""
    connection.ensure_connection()
    backend = connection.connection.info.backend_pid
    of_database = int(Path(f"/proc/{backend}/schedstat").read_text().split()[0])  # nanoseconds
    return time.process_time() + of_database / 1e9


def _plan(statement: str) -> str:
    """The plan of a statement. One that only reads is executed, to see what it touched."""
    analyze = "" if WRITES.search(statement) else "(ANALYZE, BUFFERS) "
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {analyze}{statement}")
        return "\n".join(row[0] for row in cursor.fetchall())


def main() -> None:
    setup_test_environment()
    service = Service(json.loads(os.environ["SEED"]))
    for line in sys.stdin:
        command, parameters = json.loads(line)
        answer = getattr(service, command)(**parameters)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
