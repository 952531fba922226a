"""Sign-up: an address, a link by email, and a password that creates the account.

Nothing is stored before the user chooses a password. The response does not reveal whether the
address has an account; only the email to that address does.
"""

from datetime import timedelta

from allauth.account.adapter import get_adapter
from allauth.account.signals import user_logged_in
from allauth.core import ratelimit
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.hashers import make_password
from django.core import signing
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from config.accounts import check_your_email
from config.accounts.forms import PasswordForm, SignUpForm
from desks.actions import is_taken, open_account
from desks.models import User
from events.http.web_pages import form_page, page, sent

HOURS = 24  # that a link works
LIFETIME = timedelta(hours=HOURS)
SALT = "config.accounts.sign-up"
# The session key of the link's token. A redirect removes the token from the address bar, so that it
# appears in no Referer header and in no shared address.
TOKEN_IN_SESSION = "sign_up_token"  # noqa: S105 - a name


@page("GET", "POST")
def sign_up(request: HttpRequest) -> HttpResponse:
    """Asks for the address and emails a link to it. Each submission sends another link."""
    if request.user.is_authenticated:
        return redirect(settings.LOGIN_REDIRECT_URL)
    limited = ratelimit.consume_or_429(request, action="signup")
    if limited:
        return limited
    form = SignUpForm(sent(request))
    if not form.is_valid():
        return form_page(request, "account/signup.html", form)
    address = form.cleaned_data["email"]
    return check_your_email.send(
        request, "account_signup_sent", address, lambda: _mail(request, address)
    )


@page("GET")
def check_email(request: HttpRequest) -> HttpResponse:
    """Says that an email was sent. The page is the same for every address."""
    return check_your_email.show(
        request, "account_signup_sent", "account/signup_sent.html", hours=HOURS
    )


@page("GET")
def follow_link(request: HttpRequest, token: str) -> HttpResponse:
    """Moves the token of a link into the session, then redirects to the password form."""
    if _address_without_account(token) is None:
        return _invalid_link(request)
    request.session[TOKEN_IN_SESSION] = token
    return redirect("account_signup_password")


@page("GET", "POST")
def choose_password(request: HttpRequest) -> HttpResponse:
    """Asks for a password, creates the account and signs the user in."""
    limited = ratelimit.consume_or_429(request, action="signup_password")
    if limited:
        return limited
    address = _address_without_account(request.session.get(TOKEN_IN_SESSION, ""))
    if address is None:
        return _invalid_link(request)
    form = PasswordForm(sent(request), address=address)
    if not form.is_valid():
        return form_page(request, "account/signup_password.html", form, address=address)
    hashed = make_password(form.cleaned_data["password1"])
    user = open_account(address=address, password=hashed)
    return _invalid_link(request) if user is None else _sign_in(request, user)


def _mail(request: HttpRequest, address: str) -> HttpResponse | None:
    """Sends the email, or returns the response of the address's limit.

    Both kinds of email are prepared, so that the time reveals nothing.
    """
    limited: HttpResponse | None = ratelimit.consume_or_429(
        request, action="signup_mail", key=address
    )
    if limited:
        return limited
    to_new = {"sign_up_url": _link(address), "hours": HOURS}
    to_known = {
        "sign_in_url": reverse("account_login"),
        "password_reset_url": reverse("account_reset_password"),
    }
    template, context = (
        ("account/email/account_already_exists", to_known)
        if is_taken(address)
        else ("account/email/sign_up", to_new)
    )
    get_adapter(request).send_mail(template, address, context)
    return None


def _link(address: str) -> str:
    """A link to choose a password. It contains the address and is signed, so nothing is stored."""
    return reverse("account_signup_link", args=[signing.dumps(address, salt=SALT)])


def _address_without_account(token: str) -> str | None:
    """Returns the address of a valid link, or None if it expired or the address has an account."""
    try:
        address = str(signing.loads(token, salt=SALT, max_age=LIFETIME))
    except signing.BadSignature:
        return None
    return None if is_taken(address) else address


def _invalid_link(request: HttpRequest) -> HttpResponse:
    request.session.pop(TOKEN_IN_SESSION, None)
    return render(request, "account/signup_of_no_use.html", status=410)


def _sign_in(request: HttpRequest, user: User) -> HttpResponse:
    request.session.pop(TOKEN_IN_SESSION, None)
    if request.user.is_authenticated:  # another user, in the same browser
        get_adapter(request).logout(request)
    get_adapter(request).login(request, user)
    answer = redirect("connect")
    user_logged_in.send(sender=User, request=request, response=answer, user=user)
    messages.success(request, "Your account is open, and you have a desk. First connect it.")
    return answer
