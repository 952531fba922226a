"""The forms of the account pages. Each normalizes its address (``normalize_address``).

The name of a security key is held to the rule of every name.
"""

from typing import Any, cast

from allauth.account import forms
from allauth.account.fields import EmailField, PasswordField
from allauth.core import context as allauth_context
from allauth.mfa.webauthn import forms as webauthn
from django.contrib.auth.password_validation import (
    password_validators_help_text_html,
    validate_password,
)
from django.forms import CharField, Form

from config.accounts.hashing import keep_session
from desks.models import User
from desks.models.user import MAX_ADDRESS_LENGTH, normalize_address
from events.http.names import MAX_NAME_LENGTH, validate_name

NEW_PASSWORD = {"password1": "New password", "password2": "New password (again)"}


class AddressField(EmailField):
    """An email address, normalized as it is stored and compared."""

    def __init__(self, **options: Any) -> None:
        super().__init__(max_length=MAX_ADDRESS_LENGTH, **options)

    def to_python(self, value: Any) -> str:
        text = str(super().to_python(value))
        return normalize_address(text) if text else text


class LoginForm(forms.LoginForm):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["login"] = AddressField()
        self.fields["remember"].label = "Remember me"


class ChangePasswordForm(forms.ChangePasswordForm):
    """allauth's form, labelled in sentence case."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        _label(self, oldpassword="Current password", **NEW_PASSWORD)

    def clean_oldpassword(self) -> str:
        """Keeps the session, so that a mistake in the new password signs nobody out."""
        password: str = super().clean_oldpassword()
        keep_session(allauth_context.request, cast(User, self.user))
        return password


class ResetPasswordKeyForm(forms.ResetPasswordKeyForm):
    """allauth's form, labelled in sentence case."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        _label(self, **NEW_PASSWORD)


class AddEmailForm(forms.AddEmailForm):
    email = AddressField()


class ResetPasswordForm(forms.ResetPasswordForm):
    email = AddressField()


class SignUpForm(Form):
    """Asks for the address only. The link in the email leads to the password form."""

    email = AddressField()


class PasswordForm(Form):
    """Asks for the password of a new account for ``address``."""

    password1 = PasswordField(
        label="Password",
        autocomplete="new-password",
        help_text=password_validators_help_text_html(),
    )

    def __init__(self, data: Any, *, address: str) -> None:
        super().__init__(data)
        self._user = User(email=address)

    def clean_password1(self) -> str:
        password = str(self.cleaned_data["password1"])
        validate_password(password, self._user)
        return password


def _label(form: Form, **labels: str) -> None:
    for name, label in labels.items():
        if name in form.fields:
            form.fields[name].label = label


class AddPasskeyForm(webauthn.AddWebAuthnForm):
    name = CharField(required=False, max_length=MAX_NAME_LENGTH, validators=[validate_name])


class RenamePasskeyForm(webauthn.EditWebAuthnForm):
    name = CharField(max_length=MAX_NAME_LENGTH, validators=[validate_name])
