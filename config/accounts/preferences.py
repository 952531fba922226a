"""The time zone and the colours that a user chose for the pages. They are columns of the user.

The zone becomes active when the user is known (``config.accounts.sessions``). The colours are in
each page's ``<meta name="color-scheme">``, so a page is never drawn in other colours first. Pages
that are the same for everyone follow the device.
"""

from typing import cast
from zoneinfo import available_timezones

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.forms import ChoiceField, ModelForm, RadioSelect
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from desks.expectations import count_days_in_new_zone
from desks.models import User
from desks.models.user import Theme
from events.http import rate_limits
from events.http.web_pages import form_page, page, sent

THEMES = [(Theme.SYSTEM, "As my device"), (Theme.LIGHT, "Light"), (Theme.DARK, "Dark")]
# Areas and cities; not the old names and the files of rules that the database also lists.
AREAS = ("Africa/", "America/", "Antarctica/", "Asia/", "Atlantic/", "Australia/", "Europe/")
ZONES = sorted(
    zone for zone in available_timezones() if zone.startswith((*AREAS, "Indian/", "Pacific/"))
)


class PreferencesForm(ModelForm):  # type: ignore[type-arg]
    """The choices of the page."""

    time_zone = ChoiceField(
        choices=[("", "As my browser"), ("Etc/UTC", "UTC"), *((zone, zone) for zone in ZONES)],
        required=False,
        help_text="Times and days on pages and in notices are in this zone. With As my browser, "
        "times on pages are in the browser's zone, and days and notices in UTC. The API and files "
        "are always in UTC.",
    )
    theme = ChoiceField(label="Colours", choices=THEMES, widget=RadioSelect)

    class Meta:
        model = User
        fields = ("time_zone", "theme")


@page("GET", "POST")
@login_required
def preferences(request: HttpRequest) -> HttpResponse:
    """Shows and saves the preferences of the signed-in user."""
    user = cast(User, request.user)
    if request.method == "POST":
        rate_limits.consume(rate_limits.CHANGES, str(user.pk))
    form = PreferencesForm(sent(request), instance=user)
    if form.is_valid():
        User.objects.filter(pk=user.pk).update(**form.cleaned_data)
        count_days_in_new_zone(user)
        messages.success(request, "Your preferences are saved.")
        return redirect("account_preferences")
    return form_page(request, "account/preferences.html", form)
