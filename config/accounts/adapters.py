"""allauth's hooks for accounts (those for second factors: ``config.accounts.second_factors``)."""

from datetime import timedelta
from typing import Any, cast
from urllib.parse import urlsplit

from allauth.account import app_settings as accounts
from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.authentication import get_authentication_records
from allauth.account.models import EmailAddress
from allauth.core import context as allauth_context
from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import lazy
from django.utils.html import format_html
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.safestring import SafeString

from config.accounts import hashing, mails
from config.accounts.sessions import make_room_for_session
from desks.models import User
from desks.notices.outbox import write_security
from events.http.refusals import NotAllowed
from events.http.requests import client_address
from events.times import in_zone

MAX_USER_AGENT = UserSession._meta.get_field("user_agent").max_length
SIGN_UP = timedelta(minutes=1)
CLOSED = "This account was closed."


def wrong_password() -> SafeString:
    """What the sign-in page says of a wrong password. Whether there is an account it never says."""
    return format_html(
        'Address or password is wrong. <a href="{}">Reset your password</a>.',
        reverse("account_reset_password"),
    )


class AccountAdapter(DefaultAccountAdapter):
    """Reads client addresses from trusted proxies only. Links use ``BASE_URL``."""

    error_messages = {
        **DefaultAccountAdapter.error_messages,
        "email_password_mismatch": lazy(wrong_password, SafeString)(),
    }

    def get_client_ip(self, request: HttpRequest) -> str:
        return client_address(request)

    def is_safe_url(self, url: str | None) -> bool:
        """Returns whether ``next`` may redirect to this URL: a path, or a page under ``BASE_URL``.

        allauth would accept every name in ``ALLOWED_HOSTS``, including internal ones.
        """
        base = urlsplit(settings.BASE_URL)
        safe: bool = url_has_allowed_host_and_scheme(
            url, allowed_hosts={base.netloc}, require_https=base.scheme == "https"
        )
        return safe

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        """Returns False: ``config.accounts.signup`` creates accounts, not allauth's views."""
        return False

    def login(self, request: HttpRequest, user: AbstractBaseUser) -> None:
        """Stores the session with its user before allauth lists it.

        Another sign-in of the user deletes the listed sessions whose stored session has no user.
        """
        super().login(request, user)
        request.session.save()

    def set_password(self, user: AbstractBaseUser, password: str) -> None:
        """Writes the password alone: the account may have been deactivated since it was read.

        Raises ``NotAllowed`` if it was closed.
        """
        user.set_password(password)
        rows = User.objects.filter(pk=user.pk, closed_at=None)
        if not rows.update(password=user.password):
            raise NotAllowed(CLOSED)

    def confirm_email(self, request: HttpRequest, email_address: EmailAddress) -> bool:
        """Confirms an address, unless the account or the address ended since it was read."""
        user = User.objects.select_for_update().get(pk=email_address.user_id)
        if not user.is_active or not EmailAddress.objects.filter(pk=email_address.pk).exists():
            return False
        is_confirmed: bool = super().confirm_email(request, email_address)
        return is_confirmed

    def authentication_failed(self, request: HttpRequest, **credentials: str) -> None:
        hashing.do_the_work_of_former_hashes(credentials["email"], credentials["password"])

    def reauthenticate(self, user: AbstractBaseUser, password: str) -> bool:
        """Checks the password, and keeps this session if that hashed the password anew."""
        is_right: bool = super().reauthenticate(user, password)
        if is_right:
            user.refresh_from_db(fields=["password"])
            hashing.keep_session(allauth_context.request, user)
        return is_right

    def post_login(
        self, request: HttpRequest, user: AbstractBaseUser, **options: Any
    ) -> HttpResponse:
        """Asks a user who signed in by a password reset which other credentials should end."""
        self._notify_of_sign_in(request, user)
        make_room_for_session(cast(User, user))
        answer: HttpResponse = super().post_login(request, user, **options)
        methods = {record["method"] for record in get_authentication_records(request, user)}
        return redirect("end-credentials") if "password_reset" in methods else answer

    def send_mail(self, template_prefix: str, email: str, context: dict[str, Any]) -> None:
        """Sends an email, or puts it into the outbox if it notifies a user of a change."""
        ours = {
            name: _at_our_address(value) if name.endswith("_url") else value
            for name, value in context.items()
        }
        given = {
            "request": allauth_context.request,
            "email": email,
            "reset_days": settings.PASSWORD_RESET_TIMEOUT // 86_400,
            "confirmation_days": accounts.EMAIL_CONFIRMATION_EXPIRE_DAYS,
            **ours,
        }
        message = self.render_mail(template_prefix, email, given)
        if "notice_for" in context:
            user_id, body = context["notice_for"].pk, str(message.body).strip()
            write_security(user_id, str(message.subject), body, at=timezone.now(), address=email)
        else:
            mails.send(message, template_prefix)

    def send_notification_mail(
        self,
        template_prefix: str,
        user: AbstractBaseUser,
        context: dict[str, Any] | None = None,
        email: str | None = None,
    ) -> None:
        """Notifies the account's address; both addresses if the address changed."""
        given = {
            "password_reset_url": reverse("account_reset_password"),
            "notice_for": user,
            "at": in_zone(timezone.now(), cast(User, user).time_zone),
            **(context or {}),
        }
        super().send_notification_mail(template_prefix, user, given, email)
        if "to_email" in given:
            super().send_notification_mail(template_prefix, user, given, given["to_email"])

    def _notify_of_sign_in(self, request: HttpRequest, user: AbstractBaseUser) -> None:
        """Notifies the user of a sign-in from a browser and an address without another session.

        The sign-in that ends a sign-up has no notice.
        """
        session = {
            "ip": self.get_client_ip(request),
            "user_agent": request.headers.get("User-Agent", "")[:MAX_USER_AGENT],
        }
        others = UserSession.objects.filter(user=user, **session)
        is_known = others.exclude(session_key=request.session.session_key).exists()
        is_new = cast(User, user).date_joined > timezone.now() - SIGN_UP
        if not is_known and not is_new:
            self.send_notification_mail("account/email/signed_in", user)


def _at_our_address(url: str) -> str:
    """Returns a link for an email under ``BASE_URL``. The Host header is not used."""
    return settings.BASE_URL + urlsplit(url).path
