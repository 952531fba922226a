"""The control area's pages for tokens and signing secrets.

A value is shown only in the response to the POST that created it. It never appears in a URL, a
session, a message or a log.
"""

from datetime import UTC, date, datetime
from typing import Any, ClassVar

from django import forms
from django.conf import settings
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import Model, Q
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString

from desks.models import Automation
from events.control.lists import ChoiceFilter, add_related, pill
from events.control.pages import ActionPage, ReadOnlyAdmin
from events.http import rate_limits
from events.http.name_rules import NameField
from tokens import actions
from tokens.choices import Source
from tokens.forms import SecretForm, refuse_used, used_once
from tokens.models import SigningSecret, Token
from tokens.models.token import READ, WRITE


class CreateCredentialPage(ActionPage):
    """A page that creates a credential and shows its value once, in the response."""

    is_per_row = False
    limit = "minting"  # counts what the page makes
    noun = "secret"

    def create(self, form: Any) -> tuple[str, Model]:
        """Creates the credential and returns its value and its record."""
        raise NotImplementedError

    def sample(self, value: str, record: Any) -> str:
        """A command that uses the value; empty if what it takes is not known here."""
        return ""

    def post(self, request: HttpRequest, *args: str, **kwargs: str) -> HttpResponse:
        refuse_used(request)
        return super().post(request, *args, **kwargs)

    def perform(self, form: forms.Form) -> HttpResponse:
        with used_once(self.request):
            rate_limits.consume_change(self.limit, str(self.request.user.pk))
            value, record = self.create(form)
            rate_limits.count_made(self.limit, str(self.request.user.pk))
        context = self.get_context_data(form=form, value=value, record=record)
        context["back"] = self._control.page_url("change", record)
        context |= {"noun": self.noun, "try": self.sample(value, record)}
        return self.response_class(self.request, ["control/shown_once.html"], context)


def _owned_by_the_platform(model: type[Model]) -> Q:
    """The rows of the platform: only those of customers have a desk, or a bot."""
    return Q(automation=None) if model is SigningSecret else Q(desk=None)


class OwnerFilter(ChoiceFilter, name="owner"):
    """Filters by owner. The default is the platform; a search covers both owners."""

    filters = {
        "the platform": lambda rows: rows.filter(_owned_by_the_platform(rows.model)),
        "customers": lambda rows: rows.exclude(_owned_by_the_platform(rows.model)),
    }
    label_of_all = "the platform, and anybody in a search"

    def value(self) -> str | None:
        return super().value() or (None if self.request.GET.get("q") else "the platform")


class UtcDateTimeField(forms.DateTimeField):
    """A time in UTC, whatever time zone the user chose for the pages."""

    def to_python(self, value: str | datetime | date | None) -> datetime | None:
        with timezone.override(UTC):
            time: datetime | None = super().to_python(value)
        try:
            return time.astimezone(UTC) if time else None
        except OverflowError:
            raise ValidationError("This time is out of range.") from None


# --- Tokens ---------------------------------------------------------------------------------------


class MintingForm(forms.Form):
    """A new platform token. The fields have the names of the API."""

    name = NameField("The system that uses the token.")
    scopes = forms.MultipleChoiceField(
        choices=[
            (READ, "read: pull desks, and read the whole log"),
            (WRITE, "write: deploy and push signals"),
        ],
        widget=forms.CheckboxSelectMultiple,
        help_text="The scope write does not include read.",
    )
    expiresAt = UtcDateTimeField(
        label="Expires at",
        required=False,
        widget=forms.DateTimeInput({"type": "datetime-local"}),
        help_text="In UTC. Leave it empty for a token that never expires.",
    )


class MintToken(CreateCredentialPage):
    """Mints a platform token."""

    label = "Mint a platform token"
    noun = "token"
    form_class = MintingForm
    says = (
        "A platform token is for one system, such as the engine. It reaches every desk.",
        "Its value is shown once, on the next page. It cannot be shown again.",
    )

    def create(self, form: forms.Form) -> tuple[str, Token]:
        data = form.cleaned_data
        return actions.mint_platform_token(
            name=data["name"],
            scopes=data["scopes"],
            actor=self.actor,
            expires_at=data["expiresAt"],
        )

    def sample(self, value: str, record: Token) -> str:
        """The engine's first request. A token that cannot read has none without a card."""
        url = f"{settings.BASE_URL}{reverse('desks')}?ready=1"
        return f"curl -H 'Authorization: Bearer {value}' '{url}'" if record.can_read else ""


class RevokeToken(ActionPage):
    """Revokes a platform token or a desk token."""

    label = "Revoke"
    is_destructive = True
    says = (
        "The token {row} is refused from the next request on, everywhere.",
        "This cannot be undone. Its user needs a new token.",
    )

    @staticmethod
    def applies_to(row: Token) -> bool:
        return row.revoked_at is None

    def perform(self, form: forms.Form) -> HttpResponse:
        token = actions.revoke(token=self.row, actor=self.actor)
        return self.redirect_to_row(token, "The token is revoked.")


@admin.register(Token)
class TokenAdmin(ReadOnlyAdmin):
    """Tokens, newest first. Only the hint of a token's value is shown."""

    pages = {"mint": MintToken, "revoke": RevokeToken}
    list_display = [
        "name",
        "hint",
        "desk",
        "scopes",
        "state",
        "created_at",
        "last_used_at",
        "expires_at",
        "revoked_at",
    ]
    list_filter = [OwnerFilter]
    list_select_related = ["desk"]
    ordering = ["-id"]
    search_placeholder = "a token's name, or an id"
    search_help_text = "tok_…, the usr_… of a desk, or a part of a platform token's name."
    searches_by_prefix = {
        "tok_": lambda text: Q(public_id=text),
        "usr_": lambda text: Q(desk__public_id=text),
        "": lambda text: Q(desk=None, name__icontains=text),
    }
    fields = ["public_id", "scope", *list_display]

    @admin.display
    def scopes(self, token: Token) -> str:
        return ", ".join(token.scopes)

    @admin.display
    def state(self, token: Token) -> SafeString:
        if token.revoked_at:
            return pill("revoked")
        expired = token.expires_at is not None and token.expires_at <= timezone.now()
        return pill("expired") if expired else pill("active", "on")


# --- Signing secrets ------------------------------------------------------------------------------


class GenerateSecret(CreateCredentialPage):
    """Generates a platform secret, for the source that a subclass names."""

    source: ClassVar[Source]
    # What the secret signs: until Nox has a secret of its own, and from then on.
    signs: ClassVar[tuple[str, str]]

    def get_form_class(self) -> type[forms.Form]:
        """The form offers an overlap only if a secret is live."""
        return SecretForm if self._live() else forms.Form

    def consequences(self) -> list[str]:
        live = self._live()
        return [
            self.signs[SigningSecret.objects.of(Source.NOX).exists()],
            *(f"You choose when the current secret ({secret.hint}) ends." for secret in live[:1]),
            *(f"The previous secret ({secret.hint}) ends at once." for secret in live[1:]),
            "The new secret is shown once, on the next page. It cannot be shown again.",
        ]

    def create(self, form: forms.Form) -> tuple[str, SigningSecret]:
        return actions.generate_secret(source=self.source, actor=self.actor, **form.cleaned_data)

    def _live(self) -> list[SigningSecret]:
        return list(SigningSecret.objects.of(self.source).live(timezone.now()))


class GenerateFloorSecret(GenerateSecret):
    label = "Generate a Floor secret"
    source = Source.FLOOR
    signs = (
        "The Floor secret signs source floor, and nox until a Nox secret is generated.",
        "The Floor secret signs source floor. It does not sign nox: Nox has a secret.",
    )


class GenerateNoxSecret(GenerateSecret):
    label = "Generate a Nox secret"
    source = Source.NOX
    signs = (
        "The Nox secret signs source nox. It is the first Nox secret: from now on the Floor "
        "secret can never sign nox again, even after the Nox secret has ended.",
        "The Nox secret signs source nox. The Floor secret does not.",
    )


class EndSecret(ActionPage):
    """Ends a signing secret at once."""

    label = "End"
    is_destructive = True
    says = (
        "Requests signed with the secret {row} are refused from now on.",
        "This cannot be undone. The owner needs a new secret.",
    )

    @staticmethod
    def applies_to(row: SigningSecret) -> bool:
        return row.ends_at is None or row.ends_at > timezone.now()

    def perform(self, form: forms.Form) -> HttpResponse:
        actions.end_secret(secret=self.row, actor=self.actor)
        return self.redirect_to_row(self.row, "The secret is ended.")


@admin.register(SigningSecret)
class SecretAdmin(ReadOnlyAdmin):
    """Signing secrets, newest first. Only the hint of a secret is shown."""

    pages = {
        "generate-floor": GenerateFloorSecret,
        "generate-nox": GenerateNoxSecret,
        "end": EndSecret,
    }
    list_display = ["owner", "hint", "state", "created_at", "ends_at"]
    list_filter = [OwnerFilter]
    ordering = ["-id"]
    search_help_text = "sec_… or bot_…."
    searches_by_prefix = {
        "sec_": lambda text: Q(public_id=text),
        "bot_": lambda text: Q(automation=text),
    }
    fields = ["public_id", "source", "bot", *list_display]

    @admin.display
    def bot(self, secret: SigningSecret) -> Automation | None:
        return secret.automation

    @admin.display
    def state(self, secret: SigningSecret) -> SafeString:
        if secret.ends_at is None:
            return pill("in use", "on")
        return pill("in overlap", "pill-warning") if EndSecret.applies_to(secret) else pill("ended")


add_related(Automation, "secrets", SigningSecret)
