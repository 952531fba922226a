"""Users in the control area: their list, the one page of a customer, and who is let in."""

from datetime import datetime
from typing import Any

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from django import forms
from django.contrib import admin
from django.contrib.sessions.models import Session
from django.db.models import Count, Max, Q
from django.http import HttpResponse
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.safestring import SafeString

from desks.models import Desk, User
from desks.models.automation import MAX_BOTS
from events.actors import ActorType
from events.control.lists import ChoiceFilter, pill
from events.control.pages import ActionPage, ReadOnlyAdmin
from events.http.refusals import Invalid
from events.kinds import Kind
from events.models import Event
from signals.control.stories import list_events
from signals.reports.activity import lines
from signals.reports.attention import bots_at_a_glance
from signals.reports.reasons import title_of
from signals.webhooks.models import Subscription
from tokens import account_closing
from tokens.models import SigningSecret, Token

# --- What the page of a user shows ----------------------------------------------------------------

MAX_REFUSALS, MAX_ACTS = 10, 20
# What staff can do to an account. Of these the newest are read, of which the owner may have made
# many.
ACTS = [Kind.DESK_DEACTIVATED, Kind.DESK_REACTIVATED, Kind.TOKEN_REVOKED, Kind.SECRET_ENDED]
MAX_SCANNED = 500


def account_of(user: User, now: datetime) -> dict[str, object]:
    """What a user can sign in with, and where the user is signed in; never a secret."""
    live = Session.objects.filter(expire_date__gt=now).values("session_key")
    sessions = UserSession.objects.filter(user=user, session_key__in=live)
    return {
        "state": state_of(user),
        "is_verified": EmailAddress.objects.filter(user=user, verified=True).exists(),
        "has_second_factor": Authenticator.objects.filter(user=user).exists(),
        "sessions": sessions.aggregate(count=Count("pk"), latest=Max("last_seen_at")),
    }


def customer_of(desk: Desk, now: datetime) -> dict[str, object]:
    """What the page of a customer shows of the desk. Each part has a limit."""
    bots = list(bots_at_a_glance(desk, now)[:MAX_BOTS])
    of_desk = Event.objects.filter(topic=desk.public_id)
    refusals = of_desk.filter(kind=Kind.SIGNAL_REFUSED).order_by("-position")[:MAX_REFUSALS]
    ends = of_desk.filter(kind__in=[Kind.DESK_DEACTIVATED, Kind.DESK_CLOSED])
    by_staff = of_desk.filter(kind__in=ACTS).newest(MAX_SCANNED).filter(actor_type=ActorType.STAFF)
    return {
        "desk": desk,
        "end": "" if desk.user.is_active else list_events(ends.order_by("-position")[:1], ""),
        "bots": bots,
        "last_refusals": [
            (line, title_of(line.data["code"]))
            for line in lines(refusals, {bot.pk: bot.name for bot in bots})
        ],
        "webhooks": Subscription.objects.of_owner(desk),
        "credentials": [
            *Token.objects.active(now).filter(desk=desk),
            *SigningSecret.objects.of_present_bots(desk).live(now),
        ],
        "acts": list_events(by_staff.order_by("-position")[:MAX_ACTS], "Nothing."),
    }


def _acts_of(staff_id: str) -> SafeString:
    """What a member of staff did."""
    events = Event.objects.filter(actor_id=staff_id).order_by("-position")
    return list_events(events[:MAX_ACTS], "Nothing.")


def state_of(user: User) -> SafeString:
    """Whether the user can sign in, and whether as staff."""
    if user.closed_at:
        return pill("closed")
    if not user.is_active:
        return pill("deactivated", "pill-failing")
    return pill("staff" if user.is_staff else "active", "on")


# --- Users ----------------------------------------------------------------------------------------


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
        account_closing.deactivate(user=self.row, actor=self.actor)
        return self.redirect_to_row(self.row, f"The account {self.row} is deactivated.")


class ReactivateUser(ActionPage):
    """Reactivates a user, who can then sign in again."""

    label = "Reactivate"
    says = (
        "{row} can sign in again.",
        "Nothing else is restored: no connection, token, bot or election.",
    )

    @staticmethod
    def applies_to(row: User) -> bool:
        return not row.is_active and row.closed_at is None

    def perform(self, form: forms.Form) -> HttpResponse:
        account_closing.reactivate(user=self.row, actor=self.actor)
        return self.redirect_to_row(self.row, f"The account {self.row} is active again.")


class RoleFilter(ChoiceFilter, name="role"):
    filters = {
        "users": lambda users: users.filter(is_staff=False),
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
    change_form_template = "control/customer.html"
    list_display = ["address", "state", "desk", "signed_up", "last_sign_in"]
    list_filter = [RoleFilter, ActiveFilter]
    list_select_related = ["desk"]
    ordering = ["-id"]
    search_placeholder = "address, or usr_…"
    search_help_text = (
        "The usr_… of a desk; or the beginning of an email address, or a part of it among the "
        "newest 10,000 users."
    )
    searches_by_prefix = {
        "usr_": lambda text: Q(desk__public_id=text),
        "": lambda text: Q(pk__in=User.objects.matching(text).values("pk")),
    }
    fields = list_display

    @admin.display
    def state(self, user: User) -> SafeString:
        return state_of(user)

    @admin.display(description="email address")
    def address(self, user: User) -> str:
        return user.email

    @admin.display
    def signed_up(self, user: User) -> str:
        return render_to_string("time.html", {"at": user.date_joined})

    @admin.display(description="last sign-in")
    def last_sign_in(self, user: User) -> str:
        at = user.last_login
        return render_to_string("time.html", {"at": at}) if at else "never"

    def row_context(self, row: Any) -> dict[str, object]:
        now = timezone.now()
        desk = (
            Desk.objects.filter(user=row).select_related("enrolled", "connection", "user").first()
        )
        return {
            **account_of(row, now),
            **(customer_of(desk, now) if desk else {}),
            **({"did": _acts_of(row.staff_id)} if row.staff_id else {}),
        }
