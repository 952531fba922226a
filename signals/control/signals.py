"""The pages of signals in the control area."""

from django.contrib import admin
from django.db.models import Q
from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from desks.models import Automation, Card, Desk
from events.control.lists import add_related
from events.control.pages import ReadOnlyAdmin
from events.models import Event
from signals.control import search
from signals.intake.models import Signal
from signals.reports.explanation import election_at
from tokens.models import SigningSecret, Token


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
    search_placeholder = "id or nonce"
    search_help_text = (
        "By index: sig_…, a nonce or action_id; a desk's usr_… (the newest "
        f"{search.MAX_SCANNED:,}). Among its newest {search.MAX_SCANNED:,} events: the sender's "
        "tok_…, sec_… or bot_…."
    )
    searches_by_prefix = {
        "sig_": lambda text: Q(public_id=text),
        "usr_": search.accepted_of_desk,
        "tok_": lambda text: search.accepted(actor_id=text),
        "sec_": lambda text: search.accepted(actor_id=text),
        "bot_": lambda text: _by_bot(*text.split(maxsplit=1)),
        "": lambda text: Q(nonce=text),
    }
    fields = [
        *("why", *list_display, "position", "fanout", "user_id", "bot_id", "card_id"),
        *("credential", "nonce", "trace_id", "size_quote", "rationale", "decision_ref"),
    ]

    @admin.display(description="sent to")
    def target(self, signal: Signal) -> str | None:
        return signal.user_id or (f"all on {signal.card_id}" if signal.fanout else None)

    @admin.display
    def why(self, signal: Signal) -> SafeString:
        return render_to_string("control/why.html", _explain(signal))


def _by_bot(bot_id: str, nonce: str | None = None) -> Q:
    """With a nonce that signal; without one the newest of the bot."""
    if nonce is not None:
        return Q(signer=bot_id, nonce=nonce)
    return search.accepted(**search.key_of_bot(bot_id))


def _explain(signal: Signal) -> dict[str, object]:
    """What decided a signal, in at most seven queries. None is what it did not depend on."""
    token = Token.objects.filter(public_id=signal.credential).first()
    secret = SigningSecret.objects.filter(public_id=signal.credential).first()
    ended_at = token.revoked_at if token else secret.ends_at if secret else None
    credential = token or secret
    return {
        "signal": signal,
        "event": Event.objects.filter(pk=signal.position).first(),
        "token": token,
        "secret": secret,
        "credential_was_valid": credential is not None
        and credential.created_at <= signal.received_at
        and (ended_at is None or ended_at >= signal.received_at),
        "bot": Automation.objects.filter(pk=signal.bot_id).first(),
        "desk": Desk.objects.filter(public_id=signal.user_id).first(),
        "card": Card.objects.filter(pk=signal.card_id).first(),
        # A fan-out has no single election, but a count of them.
        "election": signal.user_id and election_at(signal.position, signal.user_id, signal.bot_id),
    }


add_related(Automation, "signals", Signal)
