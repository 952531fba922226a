"""The base class of the API's views, and their JSON response."""

from collections.abc import Mapping
from typing import Generic, TypeVar

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from rest_framework.request import Request
from rest_framework.views import APIView

from events.http.strict_json import ENCODER

Body = TypeVar("Body")


class ApiResponse(HttpResponse, Generic[Body]):
    """A JSON response with this body, a ``TypedDict``. Without ``data`` the body is empty."""

    def __init__(
        self,
        data: Body | None = None,
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        content = b"" if data is None else ENCODER.encode(data).encode()
        super().__init__(content, "application/json", status, headers=dict(headers or {}))
        if data is None:
            del self["Content-Type"]


class ApiView(APIView):
    """A view that checks requests in the contract's order: caller, kind of token, scope, rate.

    ``config.middleware`` checks path, method, length and size before the view runs.
    The view skips the framework's content negotiation and versioning: responses are JSON, in one
    version. Only the catalog and the contract are also served as a page.
    """

    # The group of its operations in the OpenAPI document.
    tag = ""
    # The scope that each method requires. A method that is not listed is not allowed.
    required_scopes: dict[str, str] = {}
    # True: platform tokens only. False: desk tokens only. None: both.
    for_platform: bool | None = None

    def dispatch(self, request: HttpRequest, *args: str, **kwargs: str) -> HttpResponseBase:
        """Raises what the middleware turns into a response (``config.problems``)."""
        self.request = self.initialize_request(request, *args, **kwargs)
        return self.respond()

    def respond(self) -> HttpResponseBase:
        """Checks the request, and calls the method that answers it."""
        self.initial(self.request, *self.args, **self.kwargs)
        answer = getattr(self, str(self.request.method).lower())
        response: HttpResponseBase = answer(self.request, *self.args, **self.kwargs)
        return response

    def initial(self, request: Request, *args: str, **kwargs: str) -> None:
        self.perform_authentication(request)
        self.check_permissions(request)
        self.check_throttles(request)
