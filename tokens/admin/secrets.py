"""The control area's pages for signing secrets: list, generate for Floor and Nox, end."""

from django import forms
from django.contrib import admin
from django.db.models import Q
from django.http import HttpResponse
from django.utils import timezone

from desks.models import Automation
from events.control.lists import add_related
from events.control.pages import ActionPage, ReadOnlyAdmin
from tokens import actions
from tokens.admin.pages import CreateCredentialPage, OwnerFilter
from tokens.choices import Source
from tokens.forms import SecretForm
from tokens.models import SigningSecret


class GenerateSecret(CreateCredentialPage):
    """Generates a platform secret, for the source that a subclass names."""

    source: Source

    def get_form_class(self) -> type[forms.Form]:
        """The form offers an overlap only if a secret is live."""
        return SecretForm if self._live() else forms.Form

    def consequences(self) -> list[str]:
        live = self._live()
        return [
            self.what_it_signs(),
            *(f"You choose when the current secret ({secret.hint}) ends." for secret in live[:1]),
            *(f"The previous secret ({secret.hint}) ends at once." for secret in live[1:]),
            "The new secret is shown once, on the next page. It cannot be shown again.",
        ]

    def what_it_signs(self) -> str:
        raise NotImplementedError

    def create(self, form: forms.Form) -> tuple[str, SigningSecret]:
        return actions.generate_secret(source=self.source, actor=self.actor, **form.cleaned_data)

    def _live(self) -> list[SigningSecret]:
        return list(SigningSecret.objects.of(self.source).live(timezone.now()))


class GenerateFloorSecret(GenerateSecret):
    label = "Generate a Floor secret"
    source = Source.FLOOR

    def what_it_signs(self) -> str:
        if SigningSecret.objects.of(Source.NOX).exists():
            return "The Floor secret signs source floor. It does not sign nox: Nox has a secret."
        return "The Floor secret signs source floor, and nox until a Nox secret is generated."


class GenerateNoxSecret(GenerateSecret):
    label = "Generate a Nox secret"
    source = Source.NOX

    def what_it_signs(self) -> str:
        if SigningSecret.objects.of(Source.NOX).exists():
            return "The Nox secret signs source nox. The Floor secret does not."
        return (
            "The Nox secret signs source nox. It is the first Nox secret: from now on the Floor "
            "secret can never sign nox again, even after the Nox secret has ended."
        )


class EndSecret(ActionPage):
    """Ends a signing secret at once."""

    label = "End"
    is_destructive = True

    @staticmethod
    def applies_to(row: SigningSecret) -> bool:
        return row.ends_at is None or row.ends_at > timezone.now()

    def consequences(self) -> list[str]:
        return [
            f"Requests signed with the secret {self.row} are refused from now on.",
            "This cannot be undone. The owner needs a new secret.",
        ]

    def perform(self, form: forms.Form) -> HttpResponse:
        actions.end_secret(secret=self.row, actor=self.actor)
        return self.redirect_to_row(self.row, "The secret is ended.")


class SecretOwnerFilter(OwnerFilter, column="automation"):
    """By bot, or the Floor's and Nox's."""


@admin.register(SigningSecret)
class SecretAdmin(ReadOnlyAdmin):
    """Signing secrets, newest first. Only the hint of a secret is shown."""

    pages = {
        "generate-floor": GenerateFloorSecret,
        "generate-nox": GenerateNoxSecret,
        "end": EndSecret,
    }
    list_display = ["owner", "hint", "state", "created_at", "ends_at"]
    list_filter = [SecretOwnerFilter]
    ordering = ["-id"]
    search_help_text = "sec_… · bot_…"
    searches_by_prefix = {
        "sec_": lambda text: Q(public_id=text),
        "bot_": lambda text: Q(automation=text),
    }
    fields = ["public_id", "source", "automation", *list_display]

    @admin.display
    def state(self, secret: SigningSecret) -> str:
        if secret.ends_at is None:
            return "in use"
        return "in overlap" if EndSecret.applies_to(secret) else "ended"


add_related(Automation, "secrets", SigningSecret)
