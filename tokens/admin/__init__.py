"""The control area's pages for credentials and users."""

from tokens.admin import credentials, users

__all__ = ["credentials", "users"]
