"""Whether the log and everything beside it hold together: one finding for each promise."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from allauth.mfa.models import Authenticator
from django.conf import settings

from events.statements import fetch, fetch_all
from signals.audit.statements import PROMISES, Promise
from tokens import keys
from tokens.models import SigningSecret, Token
from tokens.rotation import ENCRYPTED_FIELDS

FEW = 5  # offenders that are named
OF_KEYS = (
    "tokens: the key of each digest is among TOKEN_KEYS",
    "signing secrets: each opens with a key of SECRET_KEYS",
    "second factors: each opens with a key of SECRET_KEYS",
)
HOW_MANY = len(PROMISES) + len(OF_KEYS)


@dataclass(frozen=True, slots=True)
class Finding:
    """What holds of ``count`` things, but for ``broken`` of them, of which ``first`` are a few.

    They are named by public ids, and never by anything that is secret.
    """

    says: str
    count: int
    broken: int
    first: list[str]


def findings() -> Iterator[Finding]:
    """Every promise in turn. Read in a snapshot, they are of one moment."""
    for promise in PROMISES:
        yield _found(promise)
    yield _digests(OF_KEYS[0])
    yield _tried(OF_KEYS[1], _secrets())
    yield _tried(OF_KEYS[2], _second_factors())


def _found(promise: Promise) -> Finding:
    few = f"SELECT id, COUNT(*) OVER () FROM ({promise.broken}) AS broken LIMIT {FEW}"  # noqa: S608
    rows = fetch_all(few)
    return Finding(
        promise.says,
        fetch(promise.counted)[0],
        broken=rows[0][1] if rows else 0,
        first=[str(row[0]) for row in rows],
    )


def _digests(says: str) -> Finding:
    """A token that was not revoked verifies only with the key that digested it."""
    kept = Token.objects.filter(revoked_at=None)
    lost = kept.exclude(key_id__in=[keys.key_id(key) for key in settings.TOKEN_KEYS])
    return Finding(
        says, kept.count(), lost.count(), list(lost.values_list("public_id", flat=True)[:FEW])
    )


def _tried(says: str, opened: Iterable[tuple[str, bool]]) -> Finding:
    """What was tried one by one: ids, and whether each opened."""
    count, broken = 0, 0
    first: list[str] = []
    for name, opens in opened:
        count += 1
        broken += not opens
        if not opens and len(first) < FEW:
            first.append(name)
    return Finding(says, count, broken, first)


def _secrets() -> Iterator[tuple[str, bool]]:
    for secret in SigningSecret.objects.order_by("pk").iterator():
        yield secret.public_id, _opens(secret.text)


def _second_factors() -> Iterator[tuple[str, bool]]:
    """TOTP seeds and the seeds of recovery codes."""
    for factor in Authenticator.objects.order_by("pk").iterator():
        sealed = [factor.data[name] for name in ENCRYPTED_FIELDS if name in factor.data]
        yield f"factor {factor.pk}", all(_opens(keys.decrypt_factor, text) for text in sealed)


def _opens(decrypt: Callable[..., str], *sealed: str) -> bool:
    try:
        decrypt(*sealed)
    except (keys.KeyLostError, ValueError):
        return False
    return True
