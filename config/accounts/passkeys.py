"""The name of a passkey: the one free text of allauth's pages, held to the rule of every name."""

from allauth.mfa.webauthn import forms as webauthn
from django import forms

from events.http.names import MAX_NAME_LENGTH, validate_name


class AddPasskeyForm(webauthn.AddWebAuthnForm):
    name = forms.CharField(required=False, max_length=MAX_NAME_LENGTH, validators=[validate_name])


class RenamePasskeyForm(webauthn.EditWebAuthnForm):
    name = forms.CharField(max_length=MAX_NAME_LENGTH, validators=[validate_name])
