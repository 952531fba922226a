"""Signing secrets: listed, generated for Floor and Nox, ended."""

from django import forms
from django.contrib import admin
from django.db.models import Q
from django.http import HttpResponse
from django.utils import timezone

from events.control import ReadOnly
from tokens import actions
from tokens.control.pages import FreshPage, MakingPage, OwnerFilter
from tokens.forms import SecretForm
from tokens.models import SigningSecret, Source


class GenerateSecret(MakingPage):
    """Generates the secret of a source that the platform's parties share."""

    source: Source

    def get_form_class(self) -> type[forms.Form]:
        """Without a secret in use there is no overlap to choose."""
        return SecretForm if self._live() else forms.Form

    def consequences(self) -> list[str]:
        live = self._live()
        return [
            self.what_it_signs(),
            *(f"The secret in use ({secret.hint}) ends as you choose." for secret in live[:1]),
            *(f"The one before it ({secret.hint}) ends at once." for secret in live[1:]),
            "The new one is shown once, on the next page, and cannot be shown again.",
        ]

    def what_it_signs(self) -> str:
        raise NotImplementedError

    def make(self, form: forms.Form) -> tuple[str, SigningSecret]:
        return actions.generate_secret(source=self.source, **form.cleaned_data)

    def _live(self) -> list[SigningSecret]:
        return list(SigningSecret.objects.of(self.source).live(timezone.now()))


class GenerateFloorSecret(GenerateSecret):
    label = "Generate a Floor secret"
    source = Source.FLOOR

    def what_it_signs(self) -> str:
        if SigningSecret.objects.of(Source.NOX).exists():
            return "The Floor secret signs source floor. It does not sign nox, which has its own."
        return "The Floor secret signs source floor, and nox until a Nox secret is generated."


class GenerateNoxSecret(GenerateSecret):
    label = "Generate a Nox secret"
    source = Source.NOX

    def what_it_signs(self) -> str:
        if SigningSecret.objects.of(Source.NOX).exists():
            return "The Nox secret signs source nox. The Floor secret does not."
        return (
            "The Nox secret signs source nox. It is the first: from now on and for good, the Floor "
            "secret cannot sign nox, not even after the Nox secret has ended."
        )


class EndSecret(FreshPage):
    """Ends a signing secret at once."""

    label = "End"

    @staticmethod
    def fits(row: SigningSecret) -> bool:
        return row.ends_at is None or row.ends_at > timezone.now()

    def consequences(self) -> list[str]:
        return [
            f"What is signed with the secret {self.row} is refused from now on.",
            "This cannot be undone: its owner needs another one.",
        ]

    def act(self, form: forms.Form) -> HttpResponse:
        actions.end_secret(secret=self.row)
        return self.done(self.row, "The secret is ended.")


class SecretOwnerFilter(OwnerFilter):
    ways = {
        "the platform": lambda secrets: secrets.filter(automation=None),
        "customers": lambda secrets: secrets.filter(automation__isnull=False),
    }


@admin.register(SigningSecret)
class SecretControl(ReadOnly):
    """Signing secrets, the newest first; of a secret there is only its hint."""

    pages = {
        "generate-floor": GenerateFloorSecret,
        "generate-nox": GenerateNoxSecret,
        "end": EndSecret,
    }
    list_display = ["owner", "hint", "state", "created_at", "ends_at"]
    list_filter = [SecretOwnerFilter]
    ordering = ["-id"]
    search_help_text = "sec_… · bot_…"
    searches = {
        "sec_": lambda text: Q(public_id=text),
        "bot_": lambda text: Q(automation=text),
    }
    fields = ["public_id", "source", "automation", *list_display]

    @admin.display
    def state(self, secret: SigningSecret) -> str:
        if secret.ends_at is None:
            return "in use"
        return "in overlap" if EndSecret.fits(secret) else "ended"
