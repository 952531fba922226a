"""Credentials, one noun a file."""

from tokens.models.secret import SigningSecret, Source
from tokens.models.token import Scope, Token

__all__ = ["Scope", "SigningSecret", "Source", "Token"]
