"""The control area's site: for staff with a second factor, and nobody else."""

import functools
from typing import Any

from django.contrib import admin
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseBase

from events.refusals import MethodNotAllowed
from tokens.staff import has_second_factor, is_staff, require_staff

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
    site_url = "/"

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

    def get_urls(self) -> list[Any]:
        return [url for url in super().get_urls() if getattr(url, "name", None) not in LEFT_OUT]
