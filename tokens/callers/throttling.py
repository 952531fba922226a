"""Which limits a caller's request counts against (contract, section 7)."""

from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from desks.models import Desk, User
from events.http import rate_limits
from events.http.parameters import DEFAULT_PAGE_SIZE
from events.http.refusals import Unauthenticated
from events.http.requests import rate_limit_address, state_of
from tokens.models import SigningSecret, Token

MAX_DIGITS = 4  # of the largest page, 1000; Python refuses to read a number of thousands of digits


class CallerThrottle(BaseThrottle):
    """Limits reads for each desk token, and signals for each bot, platform token or shared secret.

    A session's reads count as page views of its user, and a bot's signals also against its desk.
    The response headers show what is left of the most restrictive limit. Revoking has no limit.
    """

    def allow_request(self, request: Request, view: object) -> bool:
        state = state_of(request._request)
        if state.budget is None:  # a request that is judged again is counted already
            state.budget = rate_limits.consume_all(_limits_of(request))
        return True


def count_change(request: Request, limit: str, desk: Desk | None) -> None:
    """Counts a session's request to change something (``rate_limits.consume_change``)."""
    of_desk = rate_limits.desk_limits(desk.public_id) if desk else []
    user_id = str(request.user.pk)
    state_of(request._request).budget = rate_limits.consume_change(limit, user_id, of_desk)


def count_made(request: Request, limit: str) -> None:
    """Counts what a session's request made (``rate_limits.count_made``)."""
    state = state_of(request._request)
    made = rate_limits.count_made(limit, str(request.user.pk))
    state.budget = rate_limits.most_restrictive([state.budget, made])


def _limits_of(request: Request) -> list[rate_limits.LimitKey]:
    """The limits that the request counts against."""
    credential, method = request.auth, request.method
    if isinstance(credential, SigningSecret):
        bot = credential.automation
        if bot is None:
            return [("platform", credential.public_id)]
        return [("automation", bot.pk), *rate_limits.desk_limits(bot.desk.public_id)]
    if isinstance(request.user, User) and method in SAFE_METHODS:
        return [("pages", str(request.user.pk))]
    if not isinstance(credential, Token) or method == "DELETE":
        return []
    if credential.is_platform:
        return [("platform", credential.public_id)] if method == "POST" else []
    reads = [("reads", credential.public_id)]
    return [*reads, ("large_reads", credential.public_id)] if _is_large(request) else reads


def _is_large(request: Request) -> bool:
    """Whether the request may ask for more items than a page has by default.

    A thousand events take ten times the work of a hundred.
    """
    limit = request.query_params.get("limit", "")
    return limit.isdecimal() and (len(limit) > MAX_DIGITS or int(limit) > DEFAULT_PAGE_SIZE)


def count_failure(request: Request, refusal: Unauthenticated) -> Unauthenticated:
    """Counts a failed credential against the client's address and returns the refusal."""
    rate_limits.consume("failures", rate_limit_address(request._request))
    return refusal
