"""Rows with a text that nobody may read from the database alone: a secret, an address."""

from datetime import datetime
from typing import Any, Self

from django.db import models
from django.db.models import Q

from desks.ids import MAX_ID_LENGTH, new_secret_id
from tokens.crypto import keys

NO_TEXT = ""  # the key's id in a row without a text


class Sealed(models.Model):
    """A row with one text that is encrypted and bound to the row (contract, section 2).

    ``key_id`` names the key. It is ``NO_TEXT`` if the row has none.
    """

    ciphertext = models.BinaryField()
    key_id = models.CharField(max_length=8)

    class Meta:
        abstract = True

    @property
    def associated_data(self) -> str:
        """Binds the ciphertext to its row: in another row it cannot be decrypted."""
        raise NotImplementedError

    def encrypt(self, text: str) -> None:
        """Stores the text, encrypted under the first key. Does not save the row."""
        self.ciphertext, self.key_id = keys.encrypt(text, self.associated_data)

    def decrypt(self) -> str:
        """The text. Raises ``keys.KeyLostError``."""
        return keys.decrypt(bytes(self.ciphertext), self.associated_data, self.key_id)


class SealedSecretQuerySet(models.QuerySet[Any]):
    def live(self, now: datetime) -> Self:
        """Secrets in force: the current one of each owner and, in an overlap, the previous one."""
        return self.filter(Q(ends_at=None) | Q(ends_at__gt=now))


class SealedSecret(Sealed):
    """A secret that can be replaced with an overlap. ``ends_at`` is None for the current one."""

    public_id = models.CharField(max_length=MAX_ID_LENGTH, default=new_secret_id)
    hint = models.CharField(max_length=16)
    created_at = models.DateTimeField()
    ends_at = models.DateTimeField(null=True)

    class Meta:
        abstract = True
        ordering = ["-id"]
