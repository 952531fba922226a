"""What a caller may do, by kind of token and scope.

A view refuses every method that it does not declare.
"""

from typing import TYPE_CHECKING

from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from events.http.refusals import NotAllowed, ReauthenticationRequired, ScopeMissing
from tokens.callers.staff import is_staff, require_staff, signed_in_recently
from tokens.models import SigningSecret

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
