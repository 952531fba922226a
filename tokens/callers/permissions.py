"""What a caller may do, by kind of token and scope, and how often (contract, section 7).

A view refuses every method that it does not declare.
"""

from typing import TYPE_CHECKING

from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from desks.models import Desk, User
from events.http import limits
from events.http.parameters import DEFAULT_PAGE_SIZE
from events.http.refusals import (
    NotAllowed,
    ReauthenticationRequired,
    ScopeMissing,
    Unauthenticated,
)
from events.http.requests import rate_limit_address, state_of
from tokens.callers.staff import is_staff, require_staff, signed_in_recently
from tokens.models import SigningSecret, Token

MAX_DIGITS = 4  # of the largest page, 1000; Python refuses to read a number of thousands of digits

if TYPE_CHECKING:  # REST framework imports this module while it defines the base view
    from events.http.api_view import ApiView


class DeclaredScope(BasePermission):
    """Requires the scope and the kind of token that the view declares for the method.

    A method without a declared scope is refused. A signature has no scope: only the hook accepts
    signatures, and the secret that signed authorises the request.
    """

    def has_permission(self, request: Request, view: "ApiView") -> bool:  # type: ignore[override]
        if request.method == "OPTIONS" or isinstance(request.auth, SigningSecret):
            return True
        scope = view.required_scopes.get(request.method or "")
        if scope is None:
            raise NotAllowed
        if view.for_platform not in (None, request.auth.is_platform):
            kind = "platform" if view.for_platform else "desk"
            raise NotAllowed(f"Use a {kind} token: no other kind may call this endpoint.")
        if scope not in request.auth.scopes:
            raise ScopeMissing(scope)
        return True


class SignedInToChange(DeclaredScope):
    """Lets tokens with the declared scope read. A session's changes need a recent confirmation.

    ``SessionOrBearerAuthentication`` refuses changes by tokens: a stolen token must leave nothing
    behind that outlives it.
    """

    def has_permission(self, request: Request, view: "ApiView") -> bool:  # type: ignore[override]
        if request.auth is not None:
            return super().has_permission(request, view)
        is_change = request.method not in SAFE_METHODS
        if is_staff(request._request):
            require_staff(request._request, recently=is_change)
        elif is_change and not signed_in_recently(request._request):
            raise ReauthenticationRequired
        return True


class CallerThrottle(BaseThrottle):
    """Limits reads for each desk token, and signals for each bot, platform token or shared secret.

    A session's reads count as page views of its user, and a bot's signals also against its desk.
    The response headers show what is left of the most restrictive limit. Revoking has no limit.
    """

    def allow_request(self, request: Request, view: object) -> bool:
        state = state_of(request._request)
        if state.budget is None:  # a request that is judged again is counted already
            state.budget = limits.consume_all(_limits_of(request))
        return True


def count_change(request: Request, limit: str, desk: Desk | None) -> None:
    """Counts a session's request to change something (``limits.consume_change``)."""
    of_desk = limits.desk_limits(desk.public_id) if desk else []
    user_id = str(request.user.pk)
    state_of(request._request).budget = limits.consume_change(limit, user_id, of_desk)


def count_made(request: Request, limit: str) -> None:
    """Counts what a session's request made (``limits.count_made``)."""
    state = state_of(request._request)
    made = limits.count_made(limit, str(request.user.pk))
    state.budget = limits.most_restrictive([state.budget, made])


def _limits_of(request: Request) -> list[limits.LimitKey]:
    """The limits that the request counts against."""
    credential, method = request.auth, request.method
    if isinstance(credential, SigningSecret):
        bot = credential.automation
        if bot is None:
            return [("platform", credential.public_id)]
        return [("automation", bot.pk), *limits.desk_limits(bot.desk.public_id)]
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
    limits.consume("failures", rate_limit_address(request._request))
    return refusal
