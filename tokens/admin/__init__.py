"""The control area's pages for credentials and users."""

from tokens.admin import secrets, tokens, users

__all__ = ["secrets", "tokens", "users"]
