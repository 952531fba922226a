"""The control area's pages of customers and cards. Cards are published and retired here."""

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import F, Q
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from desks import actions
from desks.forms import ElectionForm, refuse_control_characters
from desks.models import Automation, Card, Desk, Election
from desks.models.card import LONGEST_NAME
from desks.models.desk import DeskQuerySet
from events.control import NOTHING, FormPage, Narrowing, ReadOnly, Tool


class CardForm(ElectionForm):
    """A new card: a name, and the pair and direction that customers may elect."""

    field_order = ["name", "pair", "direction"]
    name = forms.CharField(
        max_length=LONGEST_NAME,
        validators=[refuse_control_characters],
        help_text=f"What customers call it; at most {LONGEST_NAME} characters.",
        widget=forms.TextInput({"autocomplete": "off"}),
    )


class PublishCard(FormPage):
    """Publishes a card in place of the one before it."""

    label = "Publish a card"
    of_row = False
    form_class = CardForm

    def consequences(self) -> list[str]:
        card = Card.objects.published().first()
        fixed = "A published card is never changed or deleted: another pair or direction is another"
        return [*([_lapses(card)] if card else []), f"{fixed} card."]

    def act(self, form: forms.Form) -> HttpResponse:
        card = actions.publish_card(**form.cleaned_data)
        return self.done(card, "The card is published. Desks are ready once they enrol in it.")


class RetireCard(FormPage):
    """Retires the published card without a successor."""

    label = "Retire"

    @staticmethod
    def fits(row: Card) -> bool:
        return row.closed is None

    def consequences(self) -> list[str]:
        return [
            _lapses(self.row),
            "No card is published then and no desk is ready: what floor and nox send is refused.",
        ]

    def act(self, form: forms.Form) -> HttpResponse:
        actions.retire_card(card=self.row)
        return self.done(self.row, "The card is retired. No card is published now.")


def _lapses(card: Card) -> str:
    desks = "1 desk stands" if card.standing == 1 else f"{card.standing} desks stand"
    return (
        f"The published card, {card}, is retired. {desks} on it: every election on it lapses, and "
        "who wants another card must enrol again."
    )


@admin.register(Card)
class CardControl(ReadOnly):
    """Cards, the newest first."""

    pages = {"publish": PublishCard, "retire": RetireCard}
    list_display = [
        "name",
        "pair",
        "direction",
        "is_published",
        "standing",
        "published_at",
        "retired_at",
    ]
    ordering = ["-opened"]
    fields = ["id", *list_display, "opened", "closed"]

    @admin.display(description="published", boolean=True)
    def is_published(self, card: Card) -> bool:
        return card.closed is None

    def row_tools(self, row: Card) -> list[Tool]:
        return [
            *super().row_tools(row),
            *_related(row.pk, elections="desks_election", events="events_event"),
        ]


class ReadyFilter(Narrowing):
    title = "ready"
    parameter_name = "ready"
    ways = {"yes": lambda desks: desks.ready(Card.objects.published().first())}


class ConnectedFilter(Narrowing):
    title = "connected"
    parameter_name = "connected"
    ways = {"yes": lambda desks: desks.connected()}


@admin.register(Desk)
class DeskControl(ReadOnly):
    """Desks, the newest first. Those that are *not* something would be looked for among all."""

    list_display = ["public_id", "user", "venue", "is_ready", "created_at"]
    list_filter = [ReadyFilter, ConnectedFilter]
    list_select_related = ["user", "connection"]
    ordering = ["-id"]
    search_help_text = "usr_… · the owner's e-mail address"
    searches = {
        "usr_": lambda text: Q(public_id=text),
        "": lambda text: Q(user__email=text.lower()),
    }
    fields = [*list_display, "updated_at"]

    def get_queryset(self, request: HttpRequest) -> DeskQuerySet:
        card = Card.objects.published().first()
        desks: DeskQuerySet = Desk.objects.all()
        return desks.with_standing(card).annotate(ready_since=F("standing__opened"))

    @admin.display(description="connected to")
    def venue(self, desk: Desk) -> str:
        return desk.connection.venue if hasattr(desk, "connection") else NOTHING

    @admin.display(description="ready", boolean=True)
    def is_ready(self, desk: Any) -> bool:
        return desk.ready_since is not None

    def row_tools(self, row: Desk) -> list[Tool]:
        return _related(
            row.public_id,
            automations="desks_automation",
            elections="desks_election",
            events="events_event",
        )


@admin.register(Automation)
class AutomationControl(ReadOnly):
    """Customers' bots, in the order of their ids."""

    list_display = ["id", "name", "desk", "created_at", "removed_at"]
    list_select_related = ["desk"]
    ordering = ["id"]
    search_help_text = "bot_… · the usr_… of its desk"
    searches = {
        "bot_": lambda text: Q(pk=text),
        "usr_": lambda text: Q(desk__public_id=text),
    }
    fields = list_display

    def row_tools(self, row: Automation) -> list[Tool]:
        return _related(
            row.pk,
            elections="desks_election",
            secrets="tokens_signingsecret",
            signals="signals_signal",
        )


@admin.register(Election)
class ElectionControl(ReadOnly):
    """Elections on cards and for bots, the newest first."""

    list_display = [
        "opened",
        "desk",
        "card",
        "automation",
        "pair",
        "direction",
        "stands",
        "elected_at",
    ]
    list_select_related = ["desk", "card", "automation"]
    ordering = ["-opened"]
    search_help_text = "the usr_… of a desk · card_… · bot_…"
    searches = {
        "usr_": lambda text: Q(desk__public_id=text),
        "card_": lambda text: Q(card=text),
        "bot_": lambda text: Q(automation=text),
    }
    fields = [*list_display, "closed"]

    @admin.display(boolean=True)
    def stands(self, election: Election) -> bool:
        return election.closed is None and (election.card is None or election.card.closed is None)


def _related(text: str, **lists: str) -> list[Tool]:
    """Links to the rows of other lists that speak of this one."""
    return [
        Tool(f"Its {label}", f"{reverse(f'admin:{name}_changelist')}?q={text}")
        for label, name in lists.items()
    ]
