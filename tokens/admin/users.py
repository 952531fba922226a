"""The control area's pages for users: list, search by e-mail address, deactivate, reactivate."""

from django import forms
from django.contrib import admin
from django.db.models import Q
from django.http import HttpResponse

from desks.models import Desk, User
from events.control.lists import ChoiceFilter
from events.control.pages import ActionPage, ReadOnlyAdmin
from events.http.refusals import Invalid
from tokens import actions


class DeactivateUser(ActionPage):
    """Deactivates a user."""

    label = "Deactivate"
    is_destructive = True

    @staticmethod
    def applies_to(row: User) -> bool:
        return row.is_active

    def consequences(self) -> list[str]:
        desk = Desk.objects.filter(user=self.row).first()
        for_desk = (
            f"The desk {desk} is disconnected and its elections are withdrawn. Its token is "
            "revoked and its bots are removed."
        )
        return [
            f"{self.row} is signed out everywhere and cannot sign in again.",
            *([for_desk] if desk else []),
            "Reactivating restores the sign-in only. The account's events stay in the log.",
        ]

    def perform(self, form: forms.Form) -> HttpResponse:
        if self.row == self.request.user:
            raise Invalid("You cannot deactivate your own account. Ask another member of staff.")
        actions.deactivate(user=self.row, actor=self.actor)
        return self.redirect_to_row(self.row, f"{self.row} is deactivated.")


class ReactivateUser(ActionPage):
    """Reactivates a user, who can then sign in again."""

    label = "Reactivate"

    @staticmethod
    def applies_to(row: User) -> bool:
        return not row.is_active and row.closed_at is None

    def consequences(self) -> list[str]:
        return [
            f"{self.row} can sign in again.",
            "Nothing else is restored: no connection, token, bot or election.",
        ]

    def perform(self, form: forms.Form) -> HttpResponse:
        actions.reactivate(user=self.row, actor=self.actor)
        return self.redirect_to_row(self.row, f"{self.row} is active again.")


class RoleFilter(ChoiceFilter, name="role"):
    filters = {
        "customers": lambda users: users.filter(is_staff=False),
        "staff": lambda users: users.filter(is_staff=True),
    }


class ActiveFilter(ChoiceFilter, name="active"):
    filters = {
        "yes": lambda users: users.filter(is_active=True),
        "no": lambda users: users.filter(is_active=False),
    }


@admin.register(User)
class UserAdmin(ReadOnlyAdmin):
    """Users, newest first."""

    pages = {"deactivate": DeactivateUser, "reactivate": ReactivateUser}
    list_display = ["email", "desk", "is_active", "is_staff", "date_joined", "last_login"]
    list_filter = [RoleFilter, ActiveFilter]
    list_select_related = ["desk"]
    ordering = ["-id"]
    search_help_text = (
        "the usr_… of a desk · the beginning of an e-mail address, or a part of it among the "
        "newest 10,000 users"
    )
    searches_by_prefix = {
        "usr_": lambda text: Q(desk__public_id=text),
        "": lambda text: Q(pk__in=User.objects.matching(text).values("pk")),
    }
    fields = list_display
