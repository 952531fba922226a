"""Users: listed, found by their address, shut out."""

from django import forms
from django.contrib import admin
from django.db.models import Q
from django.http import HttpResponse

from desks.models import Desk, User
from events.control import Narrowing, ReadOnly
from events.refusals import Invalid
from tokens import actions
from tokens.control.pages import FreshPage


class DeactivateUser(FreshPage):
    """Shuts a user out."""

    label = "Deactivate"

    @staticmethod
    def fits(row: User) -> bool:
        return row.is_active

    def consequences(self) -> list[str]:
        desk = Desk.objects.filter(user=self.row).first()
        of_desk = (
            f"The desk {desk} is disconnected, which withdraws every election of it; its token is "
            "revoked and its bots are removed."
        )
        return [
            f"{self.row} is signed out everywhere and cannot sign in again.",
            *([of_desk] if desk else []),
            "This cannot be undone here. The account and what the log says of it stay.",
        ]

    def act(self, form: forms.Form) -> HttpResponse:
        if self.row == self.request.user:
            raise Invalid("Somebody else has to deactivate you.")
        actions.deactivate(user=self.row)
        return self.done(self.row, f"{self.row} is deactivated.")


class RoleFilter(Narrowing):
    title = "role"
    parameter_name = "role"
    ways = {
        "customers": lambda users: users.filter(is_staff=False),
        "staff": lambda users: users.filter(is_staff=True),
    }


class ActiveFilter(Narrowing):
    title = "active"
    parameter_name = "active"
    ways = {
        "yes": lambda users: users.filter(is_active=True),
        "no": lambda users: users.filter(is_active=False),
    }


@admin.register(User)
class UserControl(ReadOnly):
    """Who signs in, the newest first."""

    pages = {"deactivate": DeactivateUser}
    list_display = ["email", "desk", "is_active", "is_staff", "date_joined", "last_login"]
    list_filter = [RoleFilter, ActiveFilter]
    list_select_related = ["desk"]
    ordering = ["-id"]
    search_help_text = "the beginning of an e-mail address · the usr_… of a desk"
    searches = {
        "usr_": lambda text: Q(desk__public_id=text),
        "": lambda text: Q(email__startswith=text.lower()),
    }
    fields = list_display
