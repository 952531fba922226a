"""Whether the caller may do this: the kind of token, and its scope. Closed unless declared."""

from typing import TYPE_CHECKING

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from events.refusals import NotAllowed, ScopeMissing
from tokens.models import SigningSecret

if TYPE_CHECKING:  # the framework loads this class while it makes the view's own
    from events.api.base import ApiView


class DeclaredScope(BasePermission):
    """The view says which scope each method asks for, and which kind of token it is for.

    A method without a scope is closed. A signature carries no scope: the secret that made it
    authorises by itself, and only the hook takes one.
    """

    def has_permission(self, request: Request, view: "ApiView") -> bool:  # type: ignore[override]
        if request.method == "OPTIONS" or isinstance(request.auth, SigningSecret):
            return True
        scope = view.required_scopes.get(request.method or "")
        if scope is None or view.for_platform not in (None, request.auth.is_platform):
            raise NotAllowed
        if scope not in request.auth.scopes:
            raise ScopeMissing(f"This call asks for the scope {scope}. Use a token that has it.")
        return True
