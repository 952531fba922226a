"""The whole log in order: positions, times, cards, platform credentials and signals."""

from collections.abc import Callable, Mapping
from datetime import datetime

from desks.ids import USER
from events.feed import read_head
from events.kinds import EVERYONE, PLATFORM, Kind
from events.models import Event
from signals.audit.findings import Findings
from signals.audit.histories.cards import CardHistory
from signals.audit.histories.credentials import CredentialHistory
from signals.audit.histories.subscriptions import SubscriptionHistory
from signals.audit.rules import UNREADABLE, require
from signals.audit.signal_rows import SIGNAL_KINDS, check_outcome, row_differences
from signals.audit.streams import CHUNK, LoggedEvent, Progress, log_events
from signals.intake.models import Signal
from signals.webhooks.models import Subscription, SubscriptionSecret
from tokens.choices import Source
from tokens.models import SigningSecret, Token

Handler = Callable[[LoggedEvent], None]

# What names a refused request to its sender.
MARKS = {"requestId", "nonce"}


class LogReplay:
    """Reads every event once, in order.

    For the events of a desk it checks only the position, time, kind and topic. ``desk_replay``
    checks the rest.
    """

    def __init__(self, findings: Findings) -> None:
        self.cards = CardHistory(findings)
        self._findings = findings
        self._platform = CredentialHistory(findings, user_id=None)
        self._webhooks = SubscriptionHistory(findings)
        self._last_position = 0
        self._last_at: datetime | None = None
        # For the events that are not addressed to one desk.
        self._handlers: Mapping[tuple[str | None, str], Handler] = {
            (EVERYONE, Kind.CARD_PUBLISHED): self.cards.publish,
            (EVERYONE, Kind.CARD_RETIRED): self.cards.retire,
            (PLATFORM, Kind.TOKEN_MINTED): self._platform.mint,
            (PLATFORM, Kind.TOKEN_REVOKED): self._platform.revoke,
            (PLATFORM, Kind.SECRET_GENERATED): self._platform.generate,
            (PLATFORM, Kind.SECRET_ENDED): self._platform.end,
            **{(PLATFORM, kind): handle for kind, handle in self._webhooks.handlers.items()},
        }

    def read(self, progress: Progress) -> None:
        signals = Signal.objects.order_by("position").iterator(chunk_size=CHUNK)
        next_signal = next(signals, None)
        for event in log_events(progress):
            while next_signal is not None and next_signal.position < event.position:
                self._report_missing_event(next_signal)
                next_signal = next(signals, None)
            is_match = next_signal is not None and next_signal.position == event.position
            matching = next_signal if is_match else None
            self._audit_event(event, matching)
            next_signal = next(signals, None) if matching else next_signal
        for leftover in (next_signal, *signals) if next_signal else ():
            self._report_missing_event(leftover)
        self._compare_rows()

    def _audit_event(self, event: LoggedEvent, signal: Signal | None) -> None:
        self._check_position(event)
        self._findings.events.count += 1
        self._findings.events.check(event.id, lambda: self._replay(event))
        if event.kind in SIGNAL_KINDS:
            self._compare_signal(event, signal)
        elif signal is not None:
            self._report_missing_event(signal)

    def _check_position(self, event: LoggedEvent) -> None:
        self._findings.positions.count += 1
        if event.position != self._last_position + 1:
            self._findings.positions.breach(f"evt_{self._last_position + 1}")
        self._findings.times.count += 1
        if self._last_at is not None and event.at < self._last_at:
            self._findings.times.breach(event.id)
        self._last_position, self._last_at = event.position, event.at

    def _replay(self, event: LoggedEvent) -> None:
        if event.kind in SIGNAL_KINDS:
            return
        require(event.signal_id is None, "signal")
        if event.kind == Kind.SIGNAL_REFUSED:
            _check_refusal(event)
            return
        require(event.platform_content is None, "what the platform sees")
        require(event.content == {"signal": None, "data": event.data}, "members")
        if handler := self._handlers.get((event.topic, event.kind)):
            handler(event)
        else:
            self._check_desk_event(event)

    def _check_desk_event(self, event: LoggedEvent) -> None:
        require(event.kind in Kind.values, "kind")
        require(event.topic and event.topic.startswith(USER), "topic")
        if event.kind == Kind.ELECTION_MADE:
            self.cards.count(event, 1)
        if event.kind == Kind.ELECTION_WITHDRAWN:
            self.cards.count(event, -1)

    def _compare_signal(self, event: LoggedEvent, signal: Signal | None) -> None:
        self._findings.signals.count += 1
        if signal is None:
            self._findings.signals.breach(event.id, "no row")
            return
        name, findings = signal.public_id, self._findings
        try:
            if differing := row_differences(signal, event, self.cards.published):
                findings.signals.breach(name, *differing)
        except UNREADABLE:
            findings.signals.breach(name, f"{event.id} is unreadable")
            return
        findings.consent.count += 1
        findings.credentials.count += 1
        findings.consent.check(name, lambda: check_outcome(event, self.cards.published))
        if signal.source != Source.TRADINGVIEW:
            findings.credentials.check(
                name, lambda: self._platform.authorise(event, signal.source, None)
            )

    def _report_missing_event(self, signal: Signal) -> None:
        self._findings.signals.count += 1
        self._findings.signals.breach(signal.public_id, "no event")

    def _compare_rows(self) -> None:
        """Checks the head, and the rows of cards and of the platform's credentials."""
        head, last = read_head(), Event.objects.order_by("-position").first()
        if head.position != self._last_position:
            self._findings.positions.breach("head")
        if last is not None and head.at < last.at:
            self._findings.times.breach("head")
        self.cards.compare_with_rows()
        self._platform.tokens.compare_all(Token.objects.filter(desk=None))
        self._platform.secrets.compare_all(SigningSecret.objects.filter(automation=None))
        of_platform = SubscriptionSecret.objects.filter(subscription__desk=None)
        self._webhooks.subscriptions.compare_all(Subscription.objects.filter(desk=None))
        self._webhooks.secrets.compare_all(of_platform)


def _check_refusal(event: LoggedEvent) -> None:
    """A desk sees request id and nonce of its own bots' signals only, and the platform of all."""
    is_one = "suppressed" not in event.data
    seen = MARKS if is_one and event.data["botId"] else set()
    require(event.data.keys() & MARKS == seen, "what the desk sees")
    platform = (event.platform_content or event.content)["data"]
    require(platform.keys() & MARKS == (MARKS if is_one else set()), "what the platform sees")
