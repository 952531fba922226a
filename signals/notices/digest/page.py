"""The daily digest, on the page of a user's notices: at which hour, or none."""

from typing import Any

from django.contrib import messages
from django.forms import Form, TypedChoiceField
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone

from desks.models import Desk, Digest, User
from desks.notices.digests import HOURS, choose_hour
from events.http.refusals import Invalid
from signals.web.access import customer_page


class DigestForm(Form):
    """The hour of the digest, in the user's time zone."""

    hour = TypedChoiceField(
        label="Daily digest",
        required=False,
        coerce=int,
        empty_value=None,
        choices=[("", "No digest"), *((hour, f"Every day at {hour:02}:00") for hour in HOURS)],
    )

    def __init__(self, data: Any, user: User) -> None:
        digest = Digest.objects.filter(user=user).first()
        super().__init__(data, initial={"hour": digest.hour if digest else ""})


@customer_page("POST", spends="pages")
def digest(request: HttpRequest, desk: Desk) -> HttpResponse:
    """Saves at which hour the signed-in user wants the digest."""
    form = DigestForm(request.POST, desk.user)
    if not form.is_valid():
        raise Invalid.field("hour", "unknown", "Choose an hour of the list, or no digest.")
    choose_hour(desk.user, form.cleaned_data["hour"], timezone.now())
    messages.success(request, "Your digest is saved.")
    return redirect("notices")
