"""The pages of signals in the control area."""

from django.contrib import admin
from django.db.models import Q
from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from desks.models import Automation
from events.control.links import add_related
from events.control.pages import ReadOnlyAdmin
from events.kinds import Kind
from events.models import Event
from signals.models import Signal
from signals.reports.explanation import explain
from tokens.choices import Source

# A search for a desk uses the log's index on topics, and shows at most this many signals.
MAX_POSITIONS = 1000
SIGNAL_KINDS = [Kind.SIGNAL_FILLED, Kind.SIGNAL_DRY_RUN, Kind.SIGNAL_RECORDED]


@admin.register(Signal)
class SignalAdmin(ReadOnlyAdmin):
    """Accepted signals, the newest first. Refused signals are in the log of events."""

    list_display = [
        "public_id",
        "received_at",
        "source",
        "mode",
        "outcome",
        "pair",
        "direction",
        "target",
        "matched",
        "filled",
    ]
    ordering = ["-position"]
    search_help_text = (
        "Search by sig_…, by the target's usr_…, by the sender's bot_…, by bot_… and a nonce, "
        "or by the nonce or action_id of a signal from floor or nox"
    )
    searches_by_prefix = {
        "sig_": lambda text: Q(public_id=text),
        "usr_": lambda text: Q(position__in=_positions_of(text)),
        "bot_": lambda text: _by_bot(*text.split(maxsplit=1)),
        "": lambda text: Q(signer__in=[Source.FLOOR, Source.NOX], nonce=text),
    }
    fields = [
        "why",
        "public_id",
        "position",
        "received_at",
        "source",
        "mode",
        "outcome",
        "matched",
        "filled",
        "pair",
        "direction",
        "fanout",
        "user_id",
        "bot_id",
        "card_id",
        "credential",
        "nonce",
        "trace_id",
        "size_quote",
        "rationale",
        "decision_ref",
    ]

    @admin.display(description="sent to")
    def target(self, signal: Signal) -> str | None:
        return signal.user_id or (f"all on {signal.card_id}" if signal.fanout else None)

    @admin.display
    def why(self, signal: Signal) -> SafeString:
        return render_to_string("control/why.html", {"why": explain(signal)})


def _positions_of(user_id: str) -> list[int]:
    addressed = Event.objects.filter(topic=user_id, kind__in=SIGNAL_KINDS).order_by("-position")
    return list(addressed.values_list("position", flat=True)[:MAX_POSITIONS])


def _by_bot(bot_id: str, nonce: str | None = None) -> Q:
    return Q(signer=bot_id) if nonce is None else Q(signer=bot_id, nonce=nonce)


add_related(Automation, "signals", Signal)
