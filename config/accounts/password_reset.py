"""Asking for a password reset: allauth's form, and our page that says where the mail went."""

from http import HTTPStatus

from allauth.account.views import PasswordResetView
from django.http import HttpRequest, HttpResponse, HttpResponseBase

from config.accounts import sent_mail
from config.accounts.forms import ResetPasswordForm
from events.http.pages import page

SENT = "account_reset_password_done"


class AskForReset(PasswordResetView):
    """allauth's view, with a cooldown and the address on the next page."""

    def form_valid(self, form: ResetPasswordForm) -> HttpResponse:
        address = form.cleaned_data["email"]
        return sent_mail.send(self.request, SENT, address, lambda: self._deliver(form))

    def _deliver(self, form: ResetPasswordForm) -> HttpResponse | None:
        """Sends the mail, or returns the response of allauth's limit."""
        answer: HttpResponse = super().form_valid(form)
        return answer if answer.status_code == HTTPStatus.TOO_MANY_REQUESTS else None


@page("GET", "POST")
def ask(request: HttpRequest) -> HttpResponseBase:
    """Asks for the address and emails a link to it."""
    return AskForReset.as_view()(request)


@page("GET")
def check_email(request: HttpRequest) -> HttpResponse:
    """Says that an email was sent. The page is the same for every address."""
    return sent_mail.show(request, SENT, "account/password_reset_done.html")
