"""Normalization of e-mail addresses, before they are stored or compared (contract, section 1)."""

import idna
from django.core.exceptions import ValidationError
from django.core.validators import validate_email

MAX_LENGTH = 254
INVALID = "invalid"
NO_DOMAIN = "The part after the @ is not a domain name that can receive mail. Check the spelling."


def normalize_address(address: str) -> str:
    """The address in lower case, with its domain encoded for the DNS (IDNA 2008, after UTS 46).

    ``user@exämple.com`` and ``user@xn--exmple-cua.com`` are the same address; ``straße.example``
    and ``strasse.example`` are different domains. Raises ``ValidationError`` for an invalid
    address.
    """
    local, at, domain = address.strip().rpartition("@")
    if not at or not local.isascii() or len(address) > MAX_LENGTH:
        raise ValidationError(validate_email.message, INVALID)
    try:
        encoded = idna.encode(domain, uts46=True, std3_rules=True).decode("ascii")
    except UnicodeError:
        raise ValidationError(NO_DOMAIN, INVALID) from None
    normalized = f"{local}@{encoded}".lower()
    validate_email(normalized)
    if len(normalized) > MAX_LENGTH:
        raise ValidationError(validate_email.message, INVALID)
    return normalized


def normalize_search(text: str) -> str:
    """A search text, normalized if it is a complete address and lowercased if not."""
    try:
        return normalize_address(text)
    except ValidationError:
        return text.lower()
