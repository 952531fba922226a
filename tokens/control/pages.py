"""What the pages of credentials have in common: a fresh sign-in, and values shown once.

A value is shown in the answer to the POST that made it, and nowhere else: it stands in no address,
session, message or log.
"""

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse

from desks import limits
from events.control import FormPage, Narrowing
from tokens.models import SigningSecret, Token
from tokens.staff import require_staff, signed_in_recently


class FreshPage(FormPage):
    """A page that asks for a sign-in of the last quarter of an hour, and leads to it."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if request.method == "POST":
            require_staff(request, recently=True)
        elif not signed_in_recently(request):
            returning = urlencode({"next": request.get_full_path()})
            return redirect(f"{reverse('account_reauthenticate')}?{returning}")
        return super().dispatch(request, *args, **kwargs)


class MakingPage(FreshPage):
    """A page that makes a credential, whose value its answer shows this once."""

    of_row = False

    def make(self, form: Any) -> tuple[str, Token | SigningSecret]:
        """The value and the record of what was made."""
        raise NotImplementedError

    def act(self, form: Any) -> HttpResponse:
        limits.spend("minting", str(self.request.user.pk))
        value, record = self.make(form)
        context = self.get_context_data(form=form, value=value, record=record)
        context["back"] = self._control.url_of("change", record)
        return self.response_class(self.request, ["control/shown_once.html"], context)


class OwnerFilter(Narrowing):
    """The platform's own, which come first, or the customers'; a search looks at both."""

    title = "owner"
    parameter_name = "owner"

    def choices(self, changelist: Any) -> Any:
        return list(super().choices(changelist))[1:]  # without "All"

    def value(self) -> str | None:
        return super().value() or (None if self.request.GET.get("q") else "the platform")
