"""Models of credentials: tokens and signing secrets."""

from tokens.models.secret import Sealed, SigningSecret
from tokens.models.token import Token

__all__ = ["Sealed", "SigningSecret", "Token"]
