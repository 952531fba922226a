"""The control area's site, for staff with a second factor.

``ControlAreaSite.admin_view`` guards every page, so that no page can forget the check.
"""

import functools
from collections.abc import Mapping
from typing import Any

from django.contrib import admin
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import path
from django.utils import timezone
from django.views.generic import FormView, View

from events.http import rate_limits
from events.http.web_pages import View as AnyView
from events.http.web_pages import page
from signals.reports.overview import platform_overview
from signals.site.activity import log_hints
from tokens.callers.staff import (
    can_prove_second_factor,
    has_second_factor,
    is_staff,
    require_staff,
    signed_in_recently,
)

APPS = ["signals", "events", "desks", "tokens"]
SAFE_METHODS = ("GET", "HEAD")
# The account pages sign users in and out and change passwords. Nothing links to the others.
EXCLUDED_URLS = {
    "login",
    "logout",
    "password_change",
    "password_change_done",
    "autocomplete",
    "view_on_site",
}


class ControlAreaSite(admin.AdminSite):
    """Staff sign in on the account pages. Without a second factor they are asked to add one."""

    site_header = "Control area"
    site_title = "Control area"
    index_title = "Overview"
    index_template = "control/overview.html"
    site_url = "/"
    enable_nav_sidebar = False  # the header of every page has the lists

    def has_permission(self, request: HttpRequest) -> bool:
        return is_staff(request) and has_second_factor(request)

    def admin_view(self, view: AnyView, cacheable: bool = False) -> Any:
        """Lets staff through to a view, sends anonymous users to sign in, and refuses others.

        A change requires a sign-in or re-authentication within the last 15 minutes.
        """
        protected = super().admin_view(view, cacheable)

        @functools.wraps(view)
        def guarded(request: HttpRequest, *args: str, **kwargs: str) -> HttpResponseBase:
            if not request.user.is_authenticated:
                return redirect_to_login(request.get_full_path())
            is_asked = is_staff(request) and not has_second_factor(request)
            if request.method in SAFE_METHODS and is_asked and can_prove_second_factor(request):
                return redirect_to_login(request.get_full_path(), "mfa_reauthenticate")
            require_staff(request, recently=request.method not in SAFE_METHODS)
            if _is_change_form(view) and not signed_in_recently(request):
                return redirect_to_login(request.get_full_path(), "account_reauthenticate")
            if request.method in SAFE_METHODS:
                rate_limits.consume("pages", str(request.user.pk))
            answer: HttpResponseBase = protected(request, *args, **kwargs)
            return answer

        return guarded

    def index(
        self, request: HttpRequest, extra_context: Mapping[str, object] | None = None
    ) -> TemplateResponse:
        """The overview."""
        return super().index(request, {"overview": platform_overview(timezone.now())})

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        """Returns the apps, the most used first."""
        listed = super().get_app_list(request, app_label)
        return sorted(listed, key=lambda app: APPS.index(app["app_label"]))

    def get_urls(self) -> list[Any]:
        """Returns the stream of hints and Django's pages, without those that nothing links to."""
        stock = [
            url for url in super().get_urls() if getattr(url, "name", None) not in EXCLUDED_URLS
        ]
        return [path("stream", self.admin_view(page("GET")(log_hints)), name="stream"), *stock]


def _is_change_form(view: AnyView) -> bool:
    """Returns whether a view is a form that changes data."""
    return issubclass(getattr(view, "view_class", View), FormView)
