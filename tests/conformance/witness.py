"""Sees every request and answer of a run: which secrets there were, and which answers held them."""

import base64
from collections import Counter

import httpx

from tests.conformance.credentials import credentials_in

# What the tests send as a secret of an exchange, and it has no business being anywhere afterwards.
EXCHANGE_SECRET = "kX9-exchange-credential-7Qz"
PEM = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE\n-----END EC PRIVATE KEY-----"


class Witness:
    """Hears what a client sends and gets (``hooks``), and remembers the secrets of it.

    ``sent`` are the credentials that requests carried, ``answers`` tells of each credential in how
    many answers it stood.
    """

    def __init__(self, *known: str) -> None:
        self.known = {EXCHANGE_SECRET, PEM.splitlines()[1], *known}
        self.sent: set[str] = set()
        self.answers: Counter[str] = Counter()

    @property
    def hooks(self) -> dict[str, list[object]]:
        return {"request": [self._hear_request], "response": [self._hear_answer]}

    @property
    def secrets(self) -> set[str]:
        """Every secret that there was."""
        return self.known | self.sent | set(self.answers)

    def shown_again(self) -> list[str]:
        """What answers held that they should not: an old secret, or a new one a second time.

        What the run itself sent before any answer told it was known beforehand.
        """
        return sorted(
            secret for secret, times in self.answers.items() if times > 1 or secret in self.known
        )

    def _hear_request(self, request: httpx.Request) -> None:
        said = f"{request.url} {request.headers} {_text(request.read())}"
        fresh = credentials_in(said) - self.sent
        self.known |= fresh - set(self.answers)
        self.sent |= fresh

    def _hear_answer(self, answer: httpx.Response) -> None:
        said = f"{list(answer.headers.items())} {_text(answer.read())}"
        found = credentials_in(said) | {secret for secret in self.known if secret in said}
        self.answers.update(found)


def traces(secret: str) -> set[str]:
    """How a text would hold the secret: plain, in hex, in base64 at any of its three offsets."""
    raw = secret.encode()
    shifted = (base64.b64encode(b"\0" * offset + raw)[4 if offset else 0 :] for offset in range(3))
    # The last characters say something of the byte after it too, and the first of the one before.
    ways = {text.rstrip(b"=")[1:-2].decode() for text in shifted}
    return {secret, raw.hex(), raw.hex().upper(), *ways, *map(_for_urls, ways)}


def _for_urls(text: str) -> str:
    return text.replace("+", "-").replace("/", "_")


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
