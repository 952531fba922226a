"""Our pages around allauth's: where a mail went, and what is asked before an act.

``check_your_email`` keeps what "Check your email" shows, and for how long nothing is sent again.
"""

from http import HTTPStatus
from typing import cast

from allauth.account.adapter import get_adapter
from allauth.account.decorators import reauthentication_required
from allauth.account.models import EmailAddress
from allauth.account.stages import EmailVerificationStage, LoginStageController
from allauth.account.views import EmailView, PasswordResetView
from allauth.core import ratelimit
from allauth.mfa.webauthn.views import ReauthenticateWebAuthnView
from allauth.usersessions.adapter import get_adapter as get_sessions_adapter
from allauth.usersessions.models import UserSession
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from config.accounts import check_your_email
from config.accounts.forms import ResetPasswordForm
from config.accounts.second_factors import ReauthenticatePasskeyForm
from config.accounts.sessions import sessions_of
from desks.models import User
from events.http.web_pages import ask, page

RESET_SENT = "account_reset_password_done"
LINK_SENT = "account_email_verification_sent"
MAX_SHOWN_LENGTH = 90  # characters of a browser's own name

# --- A password reset ----------------------------------------------------------------------------


class AskForReset(PasswordResetView):
    """allauth's view, with a cooldown and the address on the next page."""

    def form_valid(self, form: ResetPasswordForm) -> HttpResponse:
        address = form.cleaned_data["email"]
        return check_your_email.send(self.request, RESET_SENT, address, lambda: self._deliver(form))

    def _deliver(self, form: ResetPasswordForm) -> HttpResponse | None:
        """Sends the mail, or returns the response of allauth's limit."""
        answer: HttpResponse = super().form_valid(form)
        return answer if answer.status_code == HTTPStatus.TOO_MANY_REQUESTS else None


@page("GET")
def reset_sent(request: HttpRequest) -> HttpResponse:
    """Says that an email was sent. The page is the same for every address."""
    return check_your_email.show(request, RESET_SENT, "account/password_reset_done.html")


# --- An address that is not confirmed yet: at a first sign-in, and while the address changes ------


@page("GET", "POST")
def link_sent(request: HttpRequest) -> HttpResponse:
    """Names the address that a sign-in waits for, and sends the link to it again.

    Only a sign-in with the right password leads here, so naming the address reveals no account.
    """
    awaited = _awaited_address(request)
    if request.method != "POST":
        known = awaited.email if awaited else ""
        return check_your_email.show(
            request, LINK_SENT, "account/verification_sent.html", known=known
        )
    if awaited is None:
        return redirect("account_login")
    return check_your_email.send(
        request, LINK_SENT, awaited.email, lambda: _send_link(request, awaited)
    )


def _awaited_address(request: HttpRequest) -> EmailAddress | None:
    """The address that must be confirmed before this browser's sign-in goes on."""
    stage = LoginStageController.enter(request, EmailVerificationStage.key)
    if stage is None or stage.login.user is None:
        return None
    login = stage.login
    awaited = EmailAddress.objects.filter(user=login.user, verified=False)
    return awaited.filter(email__iexact=login.email or login.user.email).first()


def _send_link(request: HttpRequest, address: EmailAddress) -> HttpResponse | None:
    """Sends the link, or returns the response of allauth's limit for the address."""
    limited: HttpResponse | None = ratelimit.consume_or_429(
        request, action="confirm_email", key=address.email.lower()
    )
    if limited is None:
        address.send_confirmation(request)
    return limited


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
@reauthentication_required(allow_get=True, app="allauth.account")  # type: ignore[untyped-decorator]
def cancel_change(request: HttpRequest) -> HttpResponse:
    """Asks for confirmation, then cancels the change to an address that is not confirmed yet."""
    user = cast(User, request.user)
    current = EmailAddress.objects.get_verified(user)
    pending = EmailAddress.objects.get_new(user)
    if current is None or pending is None:
        return redirect("account_email")
    return ask(
        request,
        "Cancel the change of your email address?",
        f"The link that we sent to {pending.email} stops working.",
        f"You keep signing in with {current.email}.",
        act="Cancel the change",
        perform=lambda: _remove(request, user, pending),
        done=f"The email address {pending.email} is removed.",
        keep="Keep the change",
        back=("Email address", reverse("account_email")),
    )


def _remove(request: HttpRequest, user: User, address: EmailAddress) -> None:
    """Removes an address, and notifies its user as allauth does.

    Does nothing if the address was removed or confirmed since it was read.
    """
    User.objects.select_for_update().get(pk=user.pk)
    if not EmailAddress.objects.filter(pk=address.pk, verified=False).exists():
        return
    address.remove()
    about = {"deleted_email": address.email}
    get_adapter(request).send_notification_mail("account/email/email_deleted", user, about)


# --- A security key that is asked for again ------------------------------------------------------


class ReauthenticateWithKey(ReauthenticateWebAuthnView):
    """allauth's page. It says itself what is wrong: allauth leads to the desk and says it there."""

    def form_invalid(self, form: ReauthenticatePasskeyForm) -> HttpResponse:
        return self.render_to_response({**self.get_context_data(), "form": form})


# --- Sessions ------------------------------------------------------------------------------------


@page("GET", "POST")
@login_required
def list_sessions(request: HttpRequest) -> HttpResponse:
    """Lists the user's sessions. Ending other ones has a page of its own, which asks first."""
    if request.method == "POST":
        return redirect("end_other_sessions")
    found = sessions_of(cast(User, request.user))
    context = {"sessions": [(each, name_of(each)) for each in found]}
    return render(request, "usersessions/usersession_list.html", context)


@page("GET", "POST")
@login_required
def end_sessions(request: HttpRequest, pk: int | None = None) -> HttpResponse:
    """Asks for confirmation, then signs out one session of the user, or every one but this one."""
    sessions = sessions_of(cast(User, request.user))
    others = [each for each in sessions if not each.is_current() and pk in (None, each.pk)]
    if not others:
        return redirect("usersessions_list")
    return ask(
        request,
        "Sign out this session?" if pk else "Sign out the other sessions?",
        *(f"{name_of(each)} at {each.ip} is signed out." for each in others),
        "You stay signed in here.",
        act="Sign out" if pk else "Sign out the others",
        perform=lambda: get_sessions_adapter().end_sessions(others),
        done="The session is signed out." if pk else "All other sessions are signed out.",
        back=("Sessions", reverse("usersessions_list")),
    )


# What browsers and systems call themselves, and their names. A browser also names those below it.
BROWSERS = (
    *(("Edg", "Edge"), ("OPR/", "Opera"), ("FxiOS", "Firefox"), ("Firefox/", "Firefox")),
    *(("CriOS", "Chrome"), ("Chrome/", "Chrome"), ("Safari/", "Safari")),
)
SYSTEMS = (
    *(("Windows", "Windows"), ("Android", "Android"), ("iPhone", "iPhone"), ("iPad", "iPad")),
    *(("Mac OS X", "macOS"), ("CrOS", "ChromeOS"), ("Linux", "Linux")),
)


def name_of(session: UserSession) -> str:
    """The name of the session's browser, as in ``Chrome on Linux``."""
    agent = session.user_agent
    browser = next((name for mark, name in BROWSERS if mark in agent), None)
    system = next((name for mark, name in SYSTEMS if mark in agent), None)
    if browser and system:
        return f"{browser} on {system}"
    return agent[:MAX_SHOWN_LENGTH] or "A browser"
