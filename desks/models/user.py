"""Who signs in: an e-mail address, no user name."""

from typing import Any, ClassVar

from django.contrib.auth.models import AbstractBaseUser, BaseUserManager, PermissionsMixin
from django.db import models
from django.db.models import F, Q
from django.utils import timezone


class UserManager(BaseUserManager["User"]):
    def create_user(self, email: str, password: str | None = None, **fields: Any) -> "User":
        """A user with the address in lower case; it is not verified by this."""
        user = self.model(email=email.lower(), **fields)
        user.set_password(password)
        user.save()
        return user

    def create_superuser(self, email: str, password: str | None = None) -> "User":
        """A member of the staff: the one role beside the customer."""
        return self.create_user(email, password, is_staff=True, is_superuser=True)

    def get_by_natural_key(self, username: str | None) -> "User":
        return self.get(email=(username or "").lower())


class User(AbstractBaseUser, PermissionsMixin):
    """A customer, or a member of the staff (who has no desk)."""

    email = models.EmailField("e-mail address", unique=True, max_length=254)
    is_active = models.BooleanField("active", default=True)
    is_staff = models.BooleanField("staff", default=False)
    date_joined = models.DateTimeField(default=timezone.now)

    objects = UserManager()

    USERNAME_FIELD = "email"
    EMAIL_FIELD = "email"
    REQUIRED_FIELDS: ClassVar[list[str]] = []

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(is_staff=F("is_superuser")), name="staff_is_one_role"
            ),
            models.CheckConstraint(
                condition=Q(email=models.functions.Lower("email")), name="email_in_lower_case"
            ),
        ]

    def __str__(self) -> str:
        return self.email

    def clean(self) -> None:
        super().clean()
        self.email = self.email.lower()
