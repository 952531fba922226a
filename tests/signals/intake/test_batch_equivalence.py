"""Signals, elections and cards in any sequence leave the same log, however they are batched."""

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from desks import actions as desks
from desks.models import Card
from events.actors import SYSTEM
from events.http.refusals import Refused
from events.models import Event, Head
from signals.intake.models import Signal
from tests.factories import Bot, a_bot, a_card, a_platform_token, a_ready_desk, expect
from tests.signals.bodies import fanout, floor, nox, tradingview
from tests.signals.intake.test_batches import CandidateJob, outcomes, signal
from tokens.models import SigningSecret, Token

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("contiguous")]

PAIRS = ["BTC/USDT", "ETH/USDT"]


class World:
    """A card, desks, bots and credentials of one run. Ids differ from run to run."""

    def __init__(self) -> None:
        card = a_card("First")
        self.desks = [a_ready_desk(card) for _ in range(2)]
        self.bots = [a_bot(desk) for desk in self.desks]
        a_platform_token()
        self.token = Token.objects.order_by("-pk")[0]
        self.waiting: list[CandidateJob] = []
        self.answers: list[Any] = []
        self.start = Head.objects.get().position

    def send(self, step: tuple[Any, ...]) -> None:
        """Adds a signal to the next batch."""
        _, shape, target, pair, nonce, sent = step
        number = self.start  # makes the nonces of the two runs differ
        match shape:
            case "fanout":
                body = fanout(pair=pair, nonce=f"{number}-{nonce}")
            case "desk":
                body = floor(self.desks[target], pair=pair, nonce=f"{number}-{nonce}")
            case "draft":
                body = nox(mode="draft", pair=pair, action_id=f"act_{number}-{nonce}")
            case _:
                body = tradingview(self.bots[target], pair=pair, nonce=f"{number}-{nonce}", **sent)
        credential = self.secret(self.bots[target]) if shape == "bot" else self.token
        self.waiting.append(signal(body, credential))

    def secret(self, bot: Bot) -> SigningSecret:
        secrets = SigningSecret.objects.select_related("automation__desk")
        return secrets.get(automation=bot.automation)

    def change(self, step: tuple[Any, ...]) -> None:
        """Changes an election or the card. What was sent before is written before."""
        self.flush()
        _, what, target = step
        desk, bot = self.desks[target], self.bots[target].automation
        match what:
            case "enrol":
                desks.enrol(desk=desk, card_id=Card.objects.get(closed=None).pk, actor=SYSTEM)
            case "withdraw":
                desks.withdraw(desk=desk, actor=SYSTEM)
            case "publish":
                a_card("Next", pair=PAIRS[target])
            case "limit":
                expect(self.bots[target], max_age=timedelta(seconds=1))
            case "elect":
                desks.elect(automation=bot, pair=PAIRS[target], direction="short", actor=SYSTEM)
            case _:
                desks.withdraw(desk=bot.desk, automation=bot, actor=SYSTEM)

    def flush(self) -> None:
        """Writes the signals that wait, as one batch."""
        jobs, self.waiting = self.waiting, []
        if not jobs:
            return
        for outcome in outcomes(jobs):
            if isinstance(outcome, Refused):
                self.answers.append((outcome.code, outcome.members))
            else:
                self.answers.append(Signal.objects.get(position=outcome).answer())

    def history(self) -> list[Any]:
        """The events and answers of this run, with numbers in place of ids, times and positions."""
        written = Event.objects.filter(position__gt=self.start).order_by("position")
        events = [
            [e.position, e.kind, e.actor_id, e.topic, e.signal_id, e.content, e.platform_content]
            for e in written
        ]
        text = json.dumps([events, self.answers], default=str)
        text = re.sub(r'("receivedAt": )"[^"]*"', r"\1null", text)
        text = re.sub(rf"(?<=[\"_]){self.start}-", "", text)
        numbers: dict[str, str] = {}
        ids = r"\b(?:usr|card|bot|tok|sec|sig)_[0-9A-Za-z]{22}\b"
        text = re.sub(ids, lambda m: numbers.setdefault(m[0], f"id{len(numbers)}"), text)
        text = re.sub(r"(svc_[a-z]+_…)[0-9A-Za-z]{4}", r"\1", text)
        return list(json.loads(text, parse_int=self.relative))

    def relative(self, digits: str) -> int:
        """A position, counted from the start of this run. Smaller numbers are counts."""
        return int(digits) - (self.start if int(digits) > self.start else 0)


SENT = st.tuples(
    st.just("send"),
    st.sampled_from(["fanout", "desk", "draft", "bot"]),
    st.integers(0, 1),
    st.sampled_from(PAIRS),
    st.integers(1, 4),
    # Of a bot: it may say that it was sent long ago, or in the future.
    st.sampled_from([{}, {"sentAt": "2020-01-01T00:00:00Z"}, {"sentAt": "2999-01-01T00:00:00Z"}]),
)
CHANGED = st.tuples(
    st.just("change"),
    st.sampled_from(["enrol", "withdraw", "publish", "elect", "limit", "end"]),
    st.integers(0, 1),
)
CUT = st.tuples(st.just("cut"))
STEPS = st.lists(st.one_of(SENT, SENT, SENT, CHANGED, CUT), max_size=25)


@given(steps=STEPS)
@settings(
    max_examples=15,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],  # shrinking takes minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_a_sequence_that_is_cut_into_batches_leaves_the_log_of_one_by_one(db, steps):
    histories = []
    for cut_always in (True, False):
        world = World()
        for step in steps:
            if step[0] == "send":
                world.send(step)
            elif step[0] == "change":
                world.change(step)
            if cut_always or step[0] == "cut":
                world.flush()
        world.flush()
        histories.append(world.history())
    assert histories[0] == histories[1]
