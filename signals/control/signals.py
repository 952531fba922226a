"""The pages of signals in the control area."""

from django.contrib import admin
from django.db.models import Q
from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from desks.models import Automation
from events.control.lists import add_related
from events.control.pages import ReadOnlyAdmin
from signals.control import search
from signals.intake.models import Signal
from signals.reports.explanation import explain


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
        "By index: sig_…, a nonce or action_id. "
        f"The newest {search.MAX_SCANNED:,}: a desk's usr_…; the sender's tok_…, sec_… or bot_…"
    )
    searches_by_prefix = {
        "sig_": lambda text: Q(public_id=text),
        "usr_": search.signals_of_desk,
        "tok_": search.signals_of_credential,
        "sec_": search.signals_of_credential,
        "bot_": lambda text: _by_bot(*text.split(maxsplit=1)),
        "": lambda text: Q(nonce=text),
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


def _by_bot(bot_id: str, nonce: str | None = None) -> Q:
    return search.signals_of_bot(bot_id) if nonce is None else Q(signer=bot_id, nonce=nonce)


add_related(Automation, "signals", Signal)
