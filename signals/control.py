"""The control area's pages of signals."""

from django.contrib import admin
from django.db.models import Q
from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from events.control import ReadOnly
from events.kinds import Kind
from events.models import Event
from signals.explanation import explain
from signals.models import Signal
from tokens.models import Source

# A desk's signals are found through the log, which has an index for it; so many of the newest.
MOST_OF_A_DESK = 1000
OF_SIGNALS = [Kind.SIGNAL_FILLED, Kind.SIGNAL_DRY_RUN, Kind.SIGNAL_RECORDED]


@admin.register(Signal)
class SignalControl(ReadOnly):
    """Accepted signals, the newest first. What was refused stands in the log."""

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
        "sig_… · the usr_… that it was sent to · the bot_… that sent it · "
        "the nonce or action_id of a signal of floor or nox · bot_… and a nonce"
    )
    searches = {
        "sig_": lambda text: Q(public_id=text),
        "usr_": lambda text: Q(position__in=_positions_of(text)),
        "bot_": lambda text: _of_bot(*text.split(maxsplit=1)),
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
    addressed = Event.objects.filter(topic=user_id, kind__in=OF_SIGNALS).order_by("-position")
    return list(addressed.values_list("position", flat=True)[:MOST_OF_A_DESK])


def _of_bot(bot_id: str, nonce: str | None = None) -> Q:
    return Q(signer=bot_id) if nonce is None else Q(signer=bot_id, nonce=nonce)
