"""The control area's site: for staff with a second factor, and nobody else."""

import functools
from typing import Any

from django.contrib import admin
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.template.response import TemplateResponse
from django.utils import timezone

from events.refusals import MethodNotAllowed
from signals.overview import overview
from tokens.staff import has_second_factor, is_staff, require_staff

ROOMS = ["signals", "events", "desks", "tokens"]
METHODS = ["GET", "HEAD", "POST", "OPTIONS"]
# Signing in and out, and changing a password, are the site's own; nothing links to the others.
LEFT_OUT = {
    "login",
    "logout",
    "password_change",
    "password_change_done",
    "autocomplete",
    "view_on_site",
}


class ControlSite(admin.AdminSite):
    """Staff sign in where everybody does; without a second factor they are told to add one."""

    site_header = "Control area"
    site_title = "Control area"
    index_title = "Overview"
    index_template = "control/overview.html"
    site_url = "/"
    enable_nav_sidebar = False  # the lists stand in the head of every page

    def has_permission(self, request: HttpRequest) -> bool:
        return is_staff(request) and has_second_factor(request)

    def admin_view(self, view: Any, cacheable: bool = False) -> Any:
        """Lets staff through to a view; asks who is nobody to sign in; refuses anybody else."""
        protected = super().admin_view(view, cacheable)

        @functools.wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if request.method == "OPTIONS":
                return HttpResponse(status=204, headers={"Allow": ", ".join(METHODS)})
            if request.method not in METHODS:
                raise MethodNotAllowed(METHODS)
            if not request.user.is_authenticated:
                return redirect_to_login(request.get_full_path())
            require_staff(request, recently=False)
            answer: HttpResponseBase = protected(request, *args, **kwargs)
            return answer

        return guarded

    def index(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> TemplateResponse:
        return super().index(request, {"overview": overview(timezone.now())})

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        """The rooms with what happens most first."""
        rooms = super().get_app_list(request, app_label)
        return sorted(rooms, key=lambda room: ROOMS.index(room["app_label"]))

    def get_urls(self) -> list[Any]:
        return [url for url in super().get_urls() if getattr(url, "name", None) not in LEFT_OUT]
