"""Records every secret of a run, and which responses contained one."""

import base64
from collections import Counter
from collections.abc import Callable

import httpx2

from tests.conformance.credentials import credentials_in

# An exchange secret that the tests send. It must not be stored or returned anywhere.
EXCHANGE_SECRET = "kX9-exchange-credential-7Qz"
PEM = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE\n-----END EC PRIVATE KEY-----"


class Witness:
    """Collects the secrets in a client's requests and responses, through its ``hooks``.

    ``sent`` holds the credentials in requests. ``answers`` counts the responses that contained each
    credential.
    """

    def __init__(self, *known: str) -> None:
        self.known = {EXCHANGE_SECRET, PEM.splitlines()[1], *known}
        self.sent: set[str] = set()
        self.answers: Counter[str] = Counter()

    @property
    def hooks(self) -> dict[str, list[Callable[..., None]]]:
        return {"request": [self._on_request], "response": [self._on_response]}

    @property
    def secrets(self) -> set[str]:
        """Every secret of the run."""
        return self.known | self.sent | set(self.answers)

    def shown_again(self) -> list[str]:
        """The secrets that responses must not contain: known ones, and new ones a second time.

        A secret that a request carried before any response did is a known one.
        """
        return sorted(
            secret for secret, times in self.answers.items() if times > 1 or secret in self.known
        )

    def _on_request(self, request: httpx2.Request) -> None:
        text = f"{request.url} {request.headers} {_text(request.read())}"
        fresh = credentials_in(text) - self.sent
        self.known |= fresh - set(self.answers)
        self.sent |= fresh

    def _on_response(self, answer: httpx2.Response) -> None:
        text = f"{list(answer.headers.items())} {_text(answer.read())}"
        secrets = credentials_in(text) | {secret for secret in self.known if secret in text}
        self.answers.update(secrets)


def traces(secret: str) -> set[str]:
    """The forms of a secret in a text: plain, hex, and base64 at each of the three offsets."""
    raw = secret.encode()
    shifted = (base64.b64encode(b"\0" * offset + raw)[4 if offset else 0 :] for offset in range(3))
    # The first and the last characters also encode a neighbouring byte, so they are left out.
    encoded = {text.rstrip(b"=")[1:-2].decode() for text in shifted}
    return {secret, raw.hex(), raw.hex().upper(), *encoded, *map(_for_urls, encoded)}


def _for_urls(text: str) -> str:
    return text.replace("+", "-").replace("/", "_")


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
