"""How often a caller may call (contract, section 7): counted once it is known who calls."""

from collections.abc import Iterator

from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from desks import limits
from tokens.models import SigningSecret, Token


class CallerThrottle(BaseThrottle):
    """Reads for each desk token; signals for each automation, platform token or shared secret.

    What is left is said in the answer's headers.
    """

    def allow_request(self, request: Request, view: object) -> bool:
        for name, who in _limited(request):
            limits.spend(name, who)
            budget = limits.budget(name, who)
            request._request.budget = budget.headers() if budget else {}  # type: ignore[attr-defined]
        return True


def _limited(request: Request) -> Iterator[tuple[str, str]]:
    """The limit that the request counts for, and whose it is; none where nothing is limited."""
    credential = request.auth
    if isinstance(credential, SigningSecret) and credential.automation_id:
        yield "automation", credential.automation_id
    elif isinstance(credential, SigningSecret):
        yield "platform", credential.public_id
    elif isinstance(credential, Token) and not credential.is_platform:
        yield "reads", credential.public_id
    elif isinstance(credential, Token) and request.method == "POST":
        yield "platform", credential.public_id
