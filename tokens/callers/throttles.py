"""Rate limits by caller (contract, section 7)."""

from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from events.http import limits
from events.http.refusals import Unauthenticated
from events.http.requests import rate_limit_address, state_of
from tokens.models import SigningSecret, Token


class CallerThrottle(BaseThrottle):
    """Limits reads for each desk token, and signals for each bot, platform token or shared secret.

    A bot's signals also count against its desk. The response headers show what is left of the most
    restrictive limit. Revoking has no limit.
    """

    def allow_request(self, request: Request, view: object) -> bool:
        budget = limits.consume_all(_limits_of(request))
        if budget:
            state_of(request._request).limit_headers = budget.headers()
        return True


def _limits_of(request: Request) -> list[limits.LimitKey]:
    """The limits that the request counts against."""
    credential, method = request.auth, request.method
    if isinstance(credential, SigningSecret):
        bot = credential.automation
        if bot is None:
            return [("platform", credential.public_id)]
        return [("automation", bot.pk), *limits.desk_limits(bot.desk.public_id)]
    if not isinstance(credential, Token) or method == "DELETE":
        return []
    if credential.is_platform:
        return [("platform", credential.public_id)] if method == "POST" else []
    return [("reads", credential.public_id)]


def count_failure(request: Request, refusal: Unauthenticated) -> Unauthenticated:
    """Counts a failed credential against the client's address and returns the refusal.

    Each request counts at most once.
    """
    state = state_of(request._request)
    if not state.failure_counted:
        state.failure_counted = True
        limits.consume("failures", rate_limit_address(request._request))
    return refusal
