"""Permissions by kind of token and scope. A view refuses every method that it does not declare."""

from typing import TYPE_CHECKING

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from events.http.refusals import NotAllowed, ScopeMissing, SignInRequired
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
        if scope is None or view.for_platform not in (None, request.auth.is_platform):
            raise NotAllowed
        if scope not in request.auth.scopes:
            raise ScopeMissing(f"This call asks for the scope {scope}. Use a token that has it.")
        return True


class SignedInToMint(BasePermission):
    """Requires a session to mint: a token cannot mint another token."""

    def has_permission(self, request: Request, view: "ApiView") -> bool:  # type: ignore[override]
        if request.method == "POST" and request.auth is not None:
            raise SignInRequired
        return True
