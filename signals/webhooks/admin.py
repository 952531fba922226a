"""The control area's pages of webhooks. Staff read all of them, and change the platform's."""

from collections.abc import Collection
from functools import cached_property
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Q
from django.http import HttpResponse
from django.template.loader import render_to_string
from django.utils.html import format_html
from django.utils.safestring import SafeString

from events.control.lists import add_section
from events.control.pages import ActionPage, ReadOnlyAdmin
from events.feed import read_head
from signals.webhooks import actions
from signals.webhooks.models import MAX_LAG, State, Subscription, without_groups
from signals.webhooks.pages import (
    NOTHING_WAITS,
    AgainForm,
    ChangeForm,
    SkipForm,
    WebhookForm,
    after_resuming,
    attempts_of,
    in_words,
    initial_of,
    press,
    receivers,
    send_again,
    was_skipped,
    what_is_skipped,
)
from tokens.admin import CreateCredentialPage, OwnerFilter
from tokens.forms import SecretForm

ONCE = "The secret is shown once, on the next page. It cannot be shown again."


class AddWebhook(CreateCredentialPage):
    label, limit = "Add a webhook of the platform", "destinations"
    form_class = WebhookForm
    says = ("It gets the whole log from now on, once its URL has answered a test.", ONCE)

    def create(self, form: WebhookForm) -> tuple[str, Subscription]:
        return actions.create(desk=None, actor=self.actor, **form.cleaned_data)


class OfThePlatform(ActionPage):
    """An act on a webhook of the platform: ``act`` is one of the buttons of a desk's page."""

    act: str
    states: Collection[State] = State

    @classmethod
    def applies_to(cls, row: Subscription) -> bool:
        return row.is_platform and row.state in cls.states

    def perform(self, form: Any) -> HttpResponse:
        return self.redirect_to_row(self.row, press(self.act, self.row, self.actor))


class ChangeWebhook(OfThePlatform):
    label, says = "Change", ["A new URL must answer a test before anything is delivered to it."]
    form_class = ChangeForm

    def get_initial(self) -> dict[str, object]:
        return initial_of(self.row)

    def perform(self, form: ChangeForm) -> HttpResponse:
        actions.change(webhook=self.row, actor=self.actor, **form.cleaned_data)
        return self.redirect_to_row(self.row, "Saved.")


class ReplaceSecret(CreateCredentialPage, OfThePlatform):
    label, is_per_row, limit = "Replace secret", True, "destinations"
    says = "As long as you keep the old secret, both sign each delivery.", ONCE
    form_class = SecretForm

    def create(self, form: SecretForm) -> tuple[str, Subscription]:
        return actions.replace_secret(webhook=self.row, actor=self.actor, **form.cleaned_data)


class SendTest(OfThePlatform):
    label, act = "Send test", "test"
    says = ["A signed test is sent to its URL. It is no event of the log."]


class PauseWebhook(OfThePlatform):
    label, act, says = "Pause", "pause", ["Events wait until the webhook is resumed."]
    states = (State.UNVERIFIED, State.ACTIVE, State.DISABLED)


class ResumeWebhook(OfThePlatform):
    label, act = "Resume", "resume"
    states = (State.PAUSED, State.DISABLED)

    def consequences(self) -> list[str]:
        return [after_resuming(self.row)]


class PositionForm(forms.Form):
    """The last position that counts as delivered."""

    position = forms.IntegerField(
        label="Continue after position",
        min_value=0,
        help_text="An earlier one sends everything after it again; a later one skips.",
    )


class Rewind(OfThePlatform):
    label, says = "Move to a position", ["It takes effect when the delivery in flight has ended."]
    form_class = PositionForm

    def get_initial(self) -> dict[str, object]:
        return {"position": self.row.cursor_position}

    def perform(self, form: PositionForm) -> HttpResponse:
        position = min(form.cleaned_data["position"], read_head().position)
        actions.move(webhook=self.row, position=position, actor=self.actor, may_skip=True)
        return self.redirect_to_row(self.row, "Moved.")


class SendAgain(OfThePlatform):
    label, form_class = "Send again", AgainForm
    says = ["Events that are sent again have the same webhook-id as the first time."]

    def perform(self, form: AgainForm) -> HttpResponse:
        return self.redirect_to_row(self.row, send_again(self.row, self.actor, form.cleaned_data))


class SkipWaiting(OfThePlatform):
    """Skips what waited as the page was shown. What comes later is not skipped."""

    label, form_class, is_destructive = "Skip what waits", SkipForm, True

    @cached_property
    def end(self) -> int:
        """The end of the log, read once: the form skips what the page says."""
        return read_head().position

    def get_initial(self) -> dict[str, object]:
        return {"until": self.end}

    def consequences(self) -> list[str]:
        return [*what_is_skipped(self.row, self.end)] or [NOTHING_WAITS]

    def perform(self, form: SkipForm) -> HttpResponse:
        until = min(form.cleaned_data["until"], self.end)
        skipped = actions.skip(webhook=self.row, actor=self.actor, until=until)
        return self.redirect_to_row(self.row, was_skipped(skipped))


class RemoveWebhook(OfThePlatform):
    label, is_destructive = "Remove", True
    says = (
        "Nothing more is sent to its URL.",
        "The URL, the secret and the list of attempts are deleted. This cannot be undone.",
    )

    def perform(self, form: forms.Form) -> HttpResponse:
        actions.remove(webhook=self.row, actor=self.actor)
        return self.redirect_to_list("The webhook is removed.")


@admin.register(Subscription)
class WebhookAdmin(ReadOnlyAdmin):
    """Webhooks, the newest first. Their URLs are shown to nobody."""

    pages = {
        "new": AddWebhook,
        "test": SendTest,
        "pause": PauseWebhook,
        "resume": ResumeWebhook,
        "change-webhook": ChangeWebhook,
        "secret": ReplaceSecret,
        "again": SendAgain,
        "skip": SkipWaiting,
        "rewind": Rewind,
        "remove": RemoveWebhook,
    }
    list_display = ["public_id", "name", "host", "desk", "now", "failures", "last_delivered_at"]
    list_filter = [OwnerFilter]
    list_select_related = ["desk"]
    ordering = ["-id"]
    search_help_text = "sub_…, or the usr_… of a desk."
    searches_by_prefix = {
        "sub_": lambda text: Q(public_id=text),
        "usr_": lambda text: Q(desk__public_id=text),
    }
    fields = [
        *(
            "public_id",
            "name",
            "host",
            "desk",
            "events",
            "bot",
            "now",
            "reason",
            "waiting",
            "failures",
        ),
        *("failing_since", "next_attempt_at", "last_delivered_at", "last_status", "created_at"),
    ]

    @admin.display(description="state")
    def now(self, row: Subscription) -> SafeString:
        return render_to_string("webhooks/state.html", {"webhook": row})

    @admin.display
    def events(self, row: Subscription) -> str:
        return ", ".join(in_words(without_groups(row.kinds))) or "all"

    @admin.display(description=f"waiting, counted to {MAX_LAG:,}")
    def waiting(self, row: Subscription) -> int | None:
        return row.lag


def _attempts(row: Subscription) -> SafeString:
    context = {**attempts_of(row), "read_only": True}
    warning = (
        render_to_string("webhooks/key_lost.html", {"webhook": row}) if row.key_lost_at else ""
    )
    return format_html("{}{}", warning, render_to_string("webhooks/attempts.html", context))


def _receivers(row: Subscription) -> SafeString:
    if not row.is_platform:
        return SafeString("")
    return render_to_string("control/receivers.html", {"samples": receivers()})


add_section(Subscription, "Latest attempts", _attempts)
add_section(Subscription, "Verify what you receive", _receivers)
