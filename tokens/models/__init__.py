"""Models of credentials: tokens and signing secrets."""

from tokens.models.sealed import Sealed
from tokens.models.secret import SigningSecret
from tokens.models.token import Token

__all__ = ["Sealed", "SigningSecret", "Token"]
