"""How accounts are kept: allauth's hooks, and the desk that a verified address opens."""

from typing import Any
from urllib.parse import urlsplit

from allauth.account import forms
from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.models import EmailAddress
from allauth.account.signals import email_confirmed
from allauth.mfa.adapter import DefaultMFAAdapter
from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse

from desks.actions import open_desk
from desks.models import User
from tokens import keys
from tokens.addresses import client_address


class AccountAdapter(DefaultAccountAdapter):
    """Addresses are believed as far as the trusted proxies go; links lead to ``BASE_URL``."""

    def get_client_ip(self, request: HttpRequest) -> str:
        return client_address(request)

    def send_mail(self, template_prefix: str, email: str, context: dict[str, Any]) -> None:
        ours = {
            name: _at_our_address(value) if name.endswith("_url") else value
            for name, value in context.items()
        }
        super().send_mail(template_prefix, email, ours)


class SignupForm(forms.SignupForm):
    """Takes as long for an address that has an account as for a new one, whose password is hashed.

    The answer is the same for both; the mail tells them apart.
    """

    def try_save(self, request: HttpRequest) -> tuple[User | None, HttpResponse | None]:
        if self.account_already_exists:
            make_password(self.cleaned_data["password1"])
        found: tuple[User | None, HttpResponse | None] = super().try_save(request)
        return found


class MfaAdapter(DefaultMFAAdapter):
    """TOTP seeds and recovery codes are encrypted at rest, under the same keys as secrets."""

    def encrypt(self, text: str) -> str:
        return keys.encrypt_factor(text)

    def decrypt(self, encrypted_text: str) -> str:
        return keys.decrypt_factor(encrypted_text)


def _at_our_address(url: str) -> str:
    """A link for a mail: under ``BASE_URL``, and never the Host that a request came with."""
    return settings.BASE_URL + urlsplit(url).path


@receiver(email_confirmed)
def open_desk_of_verified_user(email_address: EmailAddress, **kwargs: Any) -> None:
    """A verified address opens the user's desk (contract, section 1)."""
    open_desk(user=email_address.user)
