"""The control area's pages of credentials, and of the users who may be shut out."""

from tokens.control import secrets, tokens, users

__all__ = ["secrets", "tokens", "users"]
