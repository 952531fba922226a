"""An address that is not confirmed yet: at a first sign-in, and while the address changes."""

from allauth.account.internal.flows.email_verification import (
    get_address_for_login,
    send_verification_email_to_address,
)
from allauth.account.internal.flows.manage_email import delete_email
from allauth.account.models import EmailAddress
from allauth.account.stages import EmailVerificationStage, LoginStageController
from allauth.account.views import EmailView
from allauth.core.internal.httpkit import authenticated_user
from allauth.core.ratelimit import respond_429
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from config.accounts import sent_mail
from events.http.pages import ask, page

SENT = "account_email_verification_sent"


@page("GET", "POST")
def check_email(request: HttpRequest) -> HttpResponse:
    """Names the address that a sign-in waits for, and sends the link to it again.

    Only a sign-in with the right password leads here, so naming the address reveals no account.
    """
    awaited = _awaited_address(request)
    if request.method != "POST":
        known = awaited.email if awaited else ""
        return sent_mail.show(request, SENT, "account/verification_sent.html", known=known)
    if awaited is None:
        return redirect("account_login")
    return sent_mail.send(request, SENT, awaited.email, lambda: _deliver(request, awaited))


class ChangeAddress(EmailView):
    """allauth's page, which says when the link was sent too recently, and asks before a removal."""

    def post(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        if "action_remove" in request.POST:
            return redirect("account_email_cancel")
        answer: HttpResponse = super().post(request, *args, **kwargs)
        if "action_send" in request.POST and not self._did_send_verification_email:
            messages.warning(
                request, "You asked for the link a moment ago. You can send it again in a minute."
            )
        return answer


@page("GET", "POST")
@login_required
def cancel_change(request: HttpRequest) -> HttpResponse:
    """Asks for confirmation, then cancels the change to an address that is not confirmed yet."""
    user = authenticated_user(request)
    current = EmailAddress.objects.get_verified(user)
    pending = EmailAddress.objects.get_new(user)
    if current is None or pending is None:
        return redirect("account_email")
    if request.method == "POST":
        delete_email(request, pending)
        return redirect("account_email")
    return ask(
        request,
        "Cancel the change of your email address?",
        f"The link that we sent to {pending.email} stops working.",
        f"You keep signing in with {current.email}.",
        act="Cancel the change",
        keep="Keep the change",
        back=("Email address", reverse("account_email")),
    )


def _awaited_address(request: HttpRequest) -> EmailAddress | None:
    """The address that must be confirmed before this browser's sign-in goes on."""
    stage = LoginStageController.enter(request, EmailVerificationStage.key)
    address = get_address_for_login(stage.login) if stage else None
    return None if address is None or address.verified else address


def _deliver(request: HttpRequest, address: EmailAddress) -> HttpResponse | None:
    """Sends the link, or returns the response of allauth's limit for the address."""
    was_sent = send_verification_email_to_address(request, address)
    return None if was_sent else respond_429(request)
