"""Forms of credentials, and one-time keys of forms that make something shown once.

Each form that makes a token or a secret carries ``{{ one_time_key }}``, a hidden field. The view
makes the thing inside ``used_once``. If the same form is sent again (reload, double click, back
button), it makes nothing and is refused with ``made_already``.

A key is random, signed, bound to the session, and valid for ``LIFETIME``. Nothing is stored when
a form is shown. When it is sent, the cache keeps the key's digest for ``LIFETIME``; ``add`` is
atomic, so of two requests at once one wins. What the form made is never stored to be shown again.
"""

import hashlib
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from django import forms
from django.core import signing
from django.core.cache import cache
from django.http import HttpRequest, QueryDict
from django.utils.html import format_html
from django.utils.safestring import SafeString

from events.http.refusals import Invalid, MadeAlready, Unavailable
from events.unavailable_reasons import Wait
from tokens.models import Token

OVERLAPS = (
    ("0", "End it at once"),
    ("3600", "Keep it for 1 hour"),
    ("86400", "Keep it for 1 day"),
    ("604800", "Keep it for 7 days"),
)


class SecretForm(forms.Form):
    """How long the current secret keeps verifying after a new one is generated."""

    overlap = forms.ChoiceField(
        label="The secret in use",
        choices=OVERLAPS,
        initial=OVERLAPS[0][0],
        widget=forms.RadioSelect,
        error_messages={"required": "Choose when the current secret ends."},
    )

    def clean_overlap(self) -> timedelta:
        return timedelta(seconds=int(self.cleaned_data["overlap"]))


class RevokeForm(forms.Form):
    """The id of the desk token that the page named. Another one is not revoked."""

    token = forms.CharField(widget=forms.HiddenInput)


class EndForm(forms.Form):
    """Which of a desk's credentials end. The form offers only credentials that exist."""

    token = forms.BooleanField(required=False)
    secrets = forms.BooleanField(required=False)

    def __init__(self, data: QueryDict | None, *, token: Token | None, secrets: int) -> None:
        super().__init__(data)
        if token is None:
            del self.fields["token"]
        else:
            self.fields["token"].label = f"Revoke the desk token {token.hint}"
        if not secrets:
            del self.fields["secrets"]
        else:
            self.fields["secrets"].label = f"End the signing secrets of your bots ({secrets})"

    def selected(self) -> dict[str, bool]:
        return {name: bool(self.cleaned_data.get(name)) for name in ("token", "secrets")}

    def clean(self) -> None:
        if not any(self.selected().values()):
            raise forms.ValidationError("Select what to end, or keep everything.")


FIELD = "one_time_key"
LIFETIME = timedelta(hours=12)


def form_context(request: HttpRequest) -> dict[str, Callable[[], SafeString]]:
    """The template variable ``one_time_key``: a hidden field with a new key."""

    def hidden_field() -> SafeString:
        key = _signer(request).sign(secrets.token_urlsafe(16))
        return format_html('<input type="hidden" name="{}" value="{}">', FIELD, key)

    return {FIELD: hidden_field}


@contextmanager
def used_once(request: HttpRequest) -> Iterator[None]:
    """Uses the key of the submitted form; frees it again if the block raises.

    A request without a key was not sent by our form and makes something each time. Raises
    ``MadeAlready`` if the key was used, ``Invalid`` if it expired or is of another session, and
    ``Unavailable`` if the cache did not keep it.
    """
    entry = _entry(request)
    if entry is None:
        yield
        return
    if not cache.add(entry, True, LIFETIME.total_seconds()):
        raise MadeAlready if cache.get(entry) else Unavailable(Wait.CACHE)
    try:
        yield
    except BaseException:
        cache.delete(entry)
        raise


def refuse_used(request: HttpRequest) -> None:
    """Raises as ``used_once``, without using the key.

    A view calls it before it validates the form: after the first time the form may have other
    fields, and the user should read that it was sent before, not what is missing.
    """
    entry = _entry(request)
    if entry is not None and cache.get(entry):
        raise MadeAlready


def _entry(request: HttpRequest) -> str | None:
    """The cache's key for the submitted form; None if the form carries no key."""
    key = request.POST.get(FIELD)
    if key is None:
        return None
    try:
        _signer(request).unsign(key, max_age=LIFETIME)
    except signing.BadSignature:
        raise Invalid("This form is out of date. Open its page again.") from None
    return f"one-time-key:{hashlib.sha256(key.encode()).hexdigest()}"


def _signer(request: HttpRequest) -> signing.TimestampSigner:
    return signing.TimestampSigner(salt=f"tokens.one_time_keys:{request.session.session_key}")
