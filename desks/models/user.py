"""Users, who sign in with an e-mail address and have no user name.

An address is normalized before it is stored or compared (contract, section 1).
"""

import hashlib
import re
from collections.abc import Iterator
from typing import Any, ClassVar

import idna
from django.contrib.auth.models import AbstractBaseUser, BaseUserManager, PermissionsMixin
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from desks.ids import MAX_ID_LENGTH, new_staff_id
from events.actors import Actor, ActorType

MAX_ADDRESS_LENGTH = 254
INVALID = "invalid"
NO_DOMAIN = "The part after the @ is not a domain name that can receive mail. Check the spelling."

# Printable ASCII without capitals. Most addresses that were not normalized do not match.
NORMALIZED_PATTERN = r"^[!-@\[-~]+$"


# A part of an address is found among as many of the newest users, without reading all of them.
MAX_SCANNED = 10_000


def normalize_address(address: str) -> str:
    """The address in lower case, with its domain encoded for the DNS (IDNA 2008, after UTS 46).

    ``user@exämple.com`` and ``user@xn--exmple-cua.com`` are the same address; ``straße.example``
    and ``strasse.example`` are different domains. Raises ``ValidationError`` for an invalid
    address.
    """
    local, at, domain = address.strip().rpartition("@")
    if not at or not local.isascii() or len(address) > MAX_ADDRESS_LENGTH:
        raise ValidationError(validate_email.message, INVALID)
    try:
        encoded = idna.encode(domain, uts46=True, std3_rules=True).decode("ascii")
    except UnicodeError:
        raise ValidationError(NO_DOMAIN, INVALID) from None
    normalized = f"{local}@{encoded}".lower()
    validate_email(normalized)
    if len(normalized) > MAX_ADDRESS_LENGTH or not re.fullmatch(NORMALIZED_PATTERN, normalized):
        raise ValidationError(validate_email.message, INVALID)
    return normalized


def normalize_search(text: str) -> str:
    """A search text, normalized if it is a complete address and lowercased if not."""
    try:
        return normalize_address(text)
    except ValidationError:
        return text.lower()


class Theme(models.TextChoices):
    """The colours of the pages. ``system`` follows the reader's device."""

    SYSTEM = "system"
    LIGHT = "light"
    DARK = "dark"


class UserManager(BaseUserManager["User"]):
    def matching(self, text: str) -> models.QuerySet["User"]:
        """The users whose address begins with the text, and recent users whose address contains it.

        An index finds the beginning. For the rest the newest ``MAX_SCANNED`` users are read.
        """
        part = normalize_search(text)
        newest = self.order_by("-pk").values_list("pk", flat=True).first() or 0
        recent = Q(pk__gt=newest - MAX_SCANNED, email__contains=part)
        return self.filter(Q(email__startswith=part) | recent)

    def create_user(self, email: str, password: str | None = None, **fields: object) -> "User":
        """Creates a user without a desk. The address is not verified.

        Raises ``ValidationError`` if the address is invalid.
        """
        user = self.model(email=normalize_address(email), **fields)
        user.set_password(password)
        user.save()
        return user

    def create_superuser(self, email: str, password: str | None = None) -> "User":
        """Creates a member of staff. Customer and staff are the only roles."""
        return self.create_user(email, password, is_staff=True, is_superuser=True)

    def get_by_natural_key(self, username: str | None) -> "User":
        return self.get(email=normalize_search(username or ""))


class User(AbstractBaseUser, PermissionsMixin):
    """A customer, or a member of staff, who has no desk.

    A closed account keeps its row, because the log names its desk: without address and
    password. ``tokens.account_closing`` closes it.

    ``staff_id`` identifies a member of staff in the log. It never changes and is never removed.
    """

    email = models.EmailField("e-mail address", unique=True, max_length=MAX_ADDRESS_LENGTH)
    is_active = models.BooleanField("active", default=True)
    is_staff = models.BooleanField("staff", default=False)
    staff_id = models.CharField(  # noqa: DJ001 - None: never was staff
        max_length=MAX_ID_LENGTH, null=True, editable=False
    )
    time_zone = models.CharField(max_length=64, blank=True, default="")  # "": the browser's
    theme = models.CharField(max_length=6, choices=Theme, default=Theme.SYSTEM)
    closed_at = models.DateTimeField("closed", null=True, editable=False)
    date_joined = models.DateTimeField(default=timezone.now)

    objects = UserManager()

    USERNAME_FIELD = "email"
    EMAIL_FIELD = "email"
    REQUIRED_FIELDS: ClassVar[list[str]] = []

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["staff_id"], name="staff_id_is_unique"),
            models.CheckConstraint(
                condition=Q(is_staff=False) | Q(staff_id__isnull=False), name="staff_have_an_id"
            ),
            models.CheckConstraint(
                condition=Q(is_staff=F("is_superuser")), name="staff_is_one_role"
            ),
            models.CheckConstraint(
                condition=Q(email__regex=NORMALIZED_PATTERN), name="email_in_its_one_form"
            ),
            models.CheckConstraint(condition=Q(theme__in=Theme.values), name="theme_is_known"),
            models.CheckConstraint(
                condition=Q(closed_at=None) | Q(is_active=False),
                name="closed_accounts_are_inactive",
            ),
        ]

    def __str__(self) -> str:
        return self.email

    @property
    def colours(self) -> str:
        """The colours that the user's pages have, as CSS names them."""
        return "light dark" if self.theme == Theme.SYSTEM else self.theme

    @property
    def actor(self) -> Actor:
        """The user as the actor of an event. A customer must have a desk: its id is the actor's."""
        return Actor(ActorType.STAFF, self.staff_id) if self.is_staff else self.desk.actor

    def save(self, *args: Any, **kwargs: Any) -> None:
        if self.is_staff and self.staff_id is None:
            self.staff_id = new_staff_id()
        super().save(*args, **kwargs)

    def get_session_auth_hash(self) -> str:
        """A hash of the password that sessions store, so that a new password ends them.

        Django's own method also uses ``SECRET_KEY``. Then a session from before a key rotation gets
        a new session key at its next request, and a browser that sends two requests at once is
        signed out. Leaving the key out is safe, because sessions are signed and encrypted.
        """
        return hashlib.sha256(f"session {self.password}".encode()).hexdigest()

    def get_session_auth_fallback_hash(self) -> Iterator[str]:
        """There are no fallbacks, because the hash uses no key."""
        return iter(())

    def clean(self) -> None:
        super().clean()
        self.email = normalize_address(self.email)
