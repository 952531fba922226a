"""Models of credentials: tokens and signing secrets."""

from tokens.models.secret import SigningSecret
from tokens.models.token import Token

__all__ = ["SigningSecret", "Token"]
