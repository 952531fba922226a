"""The control area's pages for desks, bots, elections and cards; publishes and retires cards."""

from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.db.models import F, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.safestring import SafeString

from desks import actions
from desks.forms import ElectionForm
from desks.models import Automation, Card, Desk, Election, User
from desks.models.desk import DeskQuerySet
from events.control.lists import EMPTY_VALUE, ChoiceFilter, add_related, pill
from events.control.pages import ActionPage, ReadOnlyAdmin
from events.http.name_rules import NameField
from events.models import Event


class CardForm(ElectionForm):
    """A new card: a name, a pair and a direction."""

    field_order = ["name", "pair", "direction"]
    name = NameField("The name that users see.")


class PublishCard(ActionPage):
    """Publishes a card and retires the previous one."""

    label = "Publish a card"
    submit = "Continue"
    is_per_row = False
    form_class = CardForm

    def consequences(self) -> list[str]:
        card = Card.objects.published().first()
        fixed = "A published card cannot be changed or deleted. Publish a new card to replace it."
        return [
            *(_effects(card) if card else []),
            fixed,
            "You confirm on the next page. Nothing is published before.",
        ]

    def get_context_data(self, **kwargs: object) -> dict[str, object]:
        """Publishing is destructive if it retires a card."""
        retires = Card.objects.published().exists()
        return {**super().get_context_data(**kwargs), "is_destructive": retires}

    def perform(self, form: forms.Form) -> HttpResponse:
        """Asks for confirmation first. What was confirmed is sent along, so that it still holds."""
        sent = self.request.POST
        if "change" in sent:
            return self.render_to_response(self.get_context_data(form=form))
        if "retires" not in sent:
            return self._ask(form)
        card = actions.publish_card(actor=self.actor, retires=sent["retires"], **form.cleaned_data)
        return self.redirect_to_row(
            card, "The card is published. Desks become ready when they enrol in it."
        )

    def _ask(self, form: forms.Form) -> HttpResponse:
        published = Card.objects.published().first()
        context = {
            **self.get_context_data(form=form),
            "card": form.cleaned_data,
            "retires": published.pk if published else "",
            "effects": _effects(published) if published else ["It retires no card."],
        }
        return self.response_class(self.request, ["control/publish.html"], context)


class RetireCard(ActionPage):
    """Retires the published card without publishing another."""

    label = "Retire"
    is_destructive = True

    @staticmethod
    def applies_to(row: Card) -> bool:
        return row.closed is None

    def consequences(self) -> list[str]:
        return [
            f"The card {self.row} is retired. {_unenrolled(self.row)}",
            "Then no card is published and no desk is ready. Signals of floor and nox are refused.",
        ]

    def perform(self, form: forms.Form) -> HttpResponse:
        actions.retire_card(actor=self.actor, card=self.row)
        return self.redirect_to_row(self.row, "The card is retired. No card is published now.")


def _effects(card: Card) -> list[str]:
    """What publishing another card does to the published one, and to its desks."""
    return [f"Publishing retires {card}.", _unenrolled(card)]


def _unenrolled(card: Card) -> str:
    desks = "1 desk" if card.standing == 1 else f"{card.standing} desks"
    return f"{desks} will be unenrolled and must enrol again."


@admin.register(Card)
class CardAdmin(ReadOnlyAdmin):
    """Cards, newest first."""

    pages = {"publish": PublishCard, "retire": RetireCard}
    list_display = [
        "name",
        "pair",
        "direction",
        "state",
        "standing_now",
        "published_at",
        "retired_at",
    ]
    ordering = ["-opened"]
    fields = ["id", *list_display, "opened", "closed"]

    @admin.display
    def state(self, card: Card) -> SafeString:
        return pill("published", "on") if card.closed is None else pill("retired")

    @admin.display(description="standing")
    def standing_now(self, card: Card) -> int:
        """The elections that stand on the card. Those on a retired card have lapsed."""
        return card.standing if card.closed is None else 0


class ReadyFilter(ChoiceFilter, name="ready"):
    filters = {"yes": lambda desks: desks.ready(Card.objects.published().first())}


class ConnectedFilter(ChoiceFilter, name="connected"):
    filters = {"yes": lambda desks: desks.connected()}


@admin.register(Desk)
class DeskAdmin(ReadOnlyAdmin):
    """Desks, newest first. There is no filter for "not ready": it would scan every desk."""

    list_display = ["user", "state", "venue", "public_id", "created_at"]
    list_filter = [ReadyFilter, ConnectedFilter]
    list_select_related = ["user", "connection"]
    ordering = ["-id"]
    search_placeholder = "address, or usr_…"
    search_help_text = (
        "The usr_… of the desk; or the beginning of its owner's email address, or a part of it "
        "among the newest 10,000 users."
    )
    searches_by_prefix = {
        "usr_": lambda text: Q(public_id=text),
        "": lambda text: Q(user__in=User.objects.matching(text).values("pk")),
    }

    def get_queryset(self, request: HttpRequest) -> DeskQuerySet:
        card = Card.objects.published().first()
        desks: DeskQuerySet = Desk.objects.all()
        return desks.with_standing(card).annotate(ready_since=F("standing__opened"))

    @admin.display(description="connected to")
    def venue(self, desk: Desk) -> str:
        return desk.connection.venue if hasattr(desk, "connection") else EMPTY_VALUE

    @admin.display
    def state(self, desk: Desk) -> SafeString:
        if desk.ready_since is not None:  # type: ignore[attr-defined]
            return pill("ready", "on")
        if desk.deactivated:
            return pill("deactivated", "pill-failing")
        return pill("connected") if desk.connected else pill("not connected")

    def change_view(
        self, request: HttpRequest, object_id: str, *args: Any, **options: Any
    ) -> HttpResponse:
        """Leads to the page of its owner, which shows the desk too."""
        desk = self.get_object(request, unquote(object_id))
        if desk is None or request.method not in ("GET", "HEAD"):
            return super().change_view(request, object_id, *args, **options)
        return redirect("admin:desks_user_change", desk.user_id)


@admin.register(Automation)
class AutomationAdmin(ReadOnlyAdmin):
    """Bots, ordered by id."""

    list_display = ["name", "id", "desk", "state", "created_at", "removed_at"]
    list_select_related = ["desk"]
    ordering = ["id"]
    search_help_text = "bot_…, or the usr_… of its desk."
    searches_by_prefix = {
        "bot_": lambda text: Q(pk=text),
        "usr_": lambda text: Q(desk__public_id=text),
    }
    fields = list_display

    @admin.display
    def state(self, bot: Automation) -> SafeString:
        if bot.removed_at:
            return pill("removed")
        return pill("silent", "pill-warning") if bot.silent_from else pill("in use", "on")


@admin.register(Election)
class ElectionAdmin(ReadOnlyAdmin):
    """Elections on cards and for bots, newest first."""

    list_display = [
        "opened",
        "desk",
        "card",
        "bot",
        "pair",
        "direction",
        "state",
        "elected_at",
    ]
    list_select_related = ["desk", "card", "automation"]
    ordering = ["-opened"]
    search_help_text = "The usr_… of a desk, card_… or bot_…."
    searches_by_prefix = {
        "usr_": lambda text: Q(desk__public_id=text),
        "card_": lambda text: Q(card=text),
        "bot_": lambda text: Q(automation=text),
    }
    fields = [*list_display, "closed"]

    @admin.display
    def bot(self, election: Election) -> Automation | None:
        return election.automation

    @admin.display
    def state(self, election: Election) -> SafeString:
        if election.closed is not None:
            return pill("withdrawn")
        lapsed = election.card is not None and election.card.closed is not None
        return pill("lapsed") if lapsed else pill("stands", "on")


add_related(Card, "elections", Election)
add_related(Card, "events", Event)
add_related(Automation, "elections", Election)
