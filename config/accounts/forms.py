"""The forms of the account pages. Each normalizes its address (``normalize_address``)."""

from typing import cast

from allauth.account import forms
from allauth.account.fields import EmailField, PasswordField, SetPasswordField
from allauth.core import context as allauth_context
from django.forms import BooleanField, Form
from django.http import QueryDict

from config.accounts.hashing import keep_session
from config.accounts.settings import MIN_PASSWORD_LENGTH
from desks.models import User
from desks.models.user import MAX_ADDRESS_LENGTH, normalize_address

PASSWORD_RULE = f"{MIN_PASSWORD_LENGTH} characters or more, and not a common password."


class AddressField(EmailField):
    """An email address, normalized as it is stored and compared."""

    def __init__(self, *, label: str = "Email") -> None:
        super().__init__(max_length=MAX_ADDRESS_LENGTH, label=label)

    def to_python(self, value: str | None) -> str:
        text = str(super().to_python(value))
        return normalize_address(text) if text else text


class LoginForm(forms.LoginForm):
    remember = BooleanField(label="Remember me", required=False)

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)
        self.fields["login"] = AddressField()


class NewPassword(Form):
    """The fields of allauth's forms for a new password, labelled in sentence case."""

    password1 = SetPasswordField(label="New password", help_text=PASSWORD_RULE)
    password2 = PasswordField(label="New password (again)", autocomplete="new-password")


class ChangePasswordForm(NewPassword, forms.ChangePasswordForm):
    oldpassword = PasswordField(
        label="Current password", autocomplete="current-password", show_reset_help=True
    )

    def clean_oldpassword(self) -> str:
        """Keeps the session, so that a mistake in the new password signs nobody out."""
        password: str = super().clean_oldpassword()
        keep_session(allauth_context.request, cast(User, self.user))
        return password


class ResetPasswordKeyForm(NewPassword, forms.ResetPasswordKeyForm):
    """allauth's form, labelled in sentence case."""


class AddEmailForm(forms.AddEmailForm):
    email = AddressField(label="New email address")


class ResetPasswordForm(forms.ResetPasswordForm):
    email = AddressField()


class SignUpForm(Form):
    """Asks for the address only. The link in the email leads to the password form."""

    email = AddressField()

    def __init__(self, data: QueryDict | None) -> None:
        super().__init__(data)
        self.fields["email"].widget.attrs["autofocus"] = True


class PasswordForm(Form):
    """Asks for the password of a new account for ``address``."""

    password1 = SetPasswordField(label="Password", help_text=PASSWORD_RULE)

    def __init__(self, data: QueryDict | None, *, address: str) -> None:
        super().__init__(data)
        cast(SetPasswordField, self.fields["password1"]).user = User(email=address)
        self.fields["password1"].widget.attrs["autofocus"] = True
