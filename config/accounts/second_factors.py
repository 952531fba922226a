"""Second factors: their encryption, their forms, and the pages that require one.

The name of a security key is held to the rule of every name.
"""

import functools
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.base import forms as mfa
from allauth.mfa.models import Authenticator
from allauth.mfa.totp import forms as totp
from allauth.mfa.webauthn import forms as webauthn
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import ValidationError
from django.forms import CharField, Form, HiddenInput
from django.http import HttpRequest, HttpResponseBase

from config.problems import UNAVAILABLE_ERRORS
from events.http import strict_json
from events.http.name_rules import MAX_NAME_LENGTH, validate_name
from events.http.refusals import Malformed
from events.http.web_pages import View
from tokens.callers.staff import can_prove_second_factor
from tokens.crypto import keys

logger = logging.getLogger(__name__)

MAX_SECURITY_KEYS = 10  # of one user
# allauth's pages of second factors that a session may open before it used the factor. The others
# change factors or show recovery codes, with which it could prove a factor that it never had.
MFA_PAGES = "mfa_"
BEFORE_SECOND_FACTOR = {
    "mfa_index",
    "mfa_authenticate",
    "mfa_reauthenticate",
    "mfa_reauthenticate_webauthn",
}


class MfaAdapter(DefaultMFAAdapter):
    """Encrypts TOTP seeds and recovery codes at rest, with ``SECRET_KEYS``."""

    error_messages = {
        **DefaultMFAAdapter.error_messages,
        "incorrect_code": "This code is wrong, or was used before. Enter the code that your app "
        "shows now. If it is refused too, correct the clock of your device.",
        "key_refused": "The security key was not accepted. Its answer counts only for the page "
        "that you opened last. Use the key again.",
        # The address of an account is verified. What may wait is a new one.
        "unverified_email": "You cannot add a second factor while your new email address waits for "
        "its confirmation. Follow the link that we sent to it, or cancel the change.",
    }

    encrypt = staticmethod(keys.encrypt_factor)
    decrypt = staticmethod(keys.decrypt_factor)


# --- The pages ------------------------------------------------------------------------------------


def is_protected(page: str) -> bool:
    """Whether the page of this name is one of allauth's that only opens after the second factor."""
    return page.startswith(MFA_PAGES) and page not in BEFORE_SECOND_FACTOR


def require(view: View) -> View:
    """Leads a user who has a second factor to entering it, if the session did not use it."""

    @functools.wraps(view)
    def guarded(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        if request.user.is_authenticated and can_prove_second_factor(request):
            return redirect_to_login(request.get_full_path(), "mfa_reauthenticate")
        return view(request, *args, **kwargs)

    return guarded


# --- The forms ------------------------------------------------------------------------------------


class NumericCode(Form):
    """A code of a second factor, for which a phone shows its keypad: all codes are digits."""

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self.fields["code"].widget.attrs["inputmode"] = "numeric"


class AuthenticateForm(NumericCode, mfa.AuthenticateForm):
    """allauth's form."""


class ReauthenticateForm(NumericCode, mfa.ReauthenticateForm):
    """allauth's form."""


class ActivateTOTPForm(NumericCode, totp.ActivateTOTPForm):
    """allauth's form."""


class CredentialField(CharField):
    """What an authenticator answered, as JSON. Its value is a dict that the database can store.

    A number that is no short integer becomes text. No answer needs one.
    """

    widget = HiddenInput
    default_error_messages = {
        "required": "No security key has answered. Press the button and follow your browser."
    }

    def to_python(self, value: object) -> Any:
        text = super().to_python(value)
        if not text:
            return text
        try:
            answer = strict_json.parse(text.encode("utf-8", "surrogatepass"))
        except Malformed:
            raise MfaAdapter().validation_error("key_refused") from None
        return json.loads(json.dumps(answer, default=str))


@contextmanager
def refuse_key() -> Iterator[None]:
    """Refuses as a wrong key what allauth refuses as a wrong code, and what it cannot read.

    allauth and its library read JSON, base64, CBOR and keys, and let most of their errors through.
    """
    try:
        yield
    except UNAVAILABLE_ERRORS:
        raise
    except ValidationError as refusal:
        if refusal.code != "incorrect_code":
            raise
        raise MfaAdapter().validation_error("key_refused") from None
    except Exception as error:
        logger.warning("An answer of an authenticator was not read: %s", type(error).__name__)
        raise MfaAdapter().validation_error("key_refused") from None


class AuthenticatePasskeyForm(webauthn.AuthenticateWebAuthnForm):
    credential = CredentialField()  # type: ignore[assignment]

    def clean_credential(self) -> Authenticator:
        with refuse_key():
            authenticator: Authenticator = super().clean_credential()
        return authenticator


class ReauthenticatePasskeyForm(AuthenticatePasskeyForm):
    reauthenticated = True


class AddPasskeyForm(webauthn.AddWebAuthnForm):
    credential = CredentialField()  # type: ignore[assignment]
    name = CharField(required=False, max_length=MAX_NAME_LENGTH, validators=[validate_name])

    def clean(self) -> dict[str, Any]:
        own = Authenticator.objects.filter(user=self.user, type=Authenticator.Type.WEBAUTHN)
        if own.count() >= MAX_SECURITY_KEYS:
            raise ValidationError(
                f"You have {MAX_SECURITY_KEYS} security keys. Remove one before you add another."
            )
        with refuse_key():
            cleaned: dict[str, Any] = super().clean()
        return cleaned


class RenamePasskeyForm(webauthn.EditWebAuthnForm):
    name = CharField(max_length=MAX_NAME_LENGTH, validators=[validate_name])
