"""The signed link of a sign-up. It contains the address, so nothing is stored."""

from datetime import timedelta

from django.core import signing

LIFETIME = timedelta(hours=24)
SALT = "config.accounts.sign-up"


def token_for(address: str) -> str:
    """Returns the link's token: the address, the time and a signature with ``SECRET_KEY``."""
    return signing.dumps(address, salt=SALT)


def address_of(token: str) -> str | None:
    """Returns the address in a token; None if the token is invalid or expired."""
    try:
        return str(signing.loads(token, salt=SALT, max_age=LIFETIME))
    except signing.BadSignature:
        return None
