"""What every view of the API has in common: the order of the first checks, and JSON answers."""

import json
from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from rest_framework.request import Request
from rest_framework.views import APIView

from events.api.bodies import check_length
from events.refusals import MethodNotAllowed


class Answer(HttpResponse):
    """An answer in JSON, or with nothing in it."""

    def __init__(
        self, data: Any = None, *, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        content = b"" if data is None else ENCODER.encode(data).encode()
        super().__init__(content, "application/json", status, headers=dict(headers or {}))
        if data is None:
            del self["Content-Type"]


# What cannot be written exactly is a fault, never a NaN.
ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class ApiView(APIView):
    """A view that checks in the contract's order: method, length and size, caller, scope, rate.

    It leaves out what the framework does for choices that this API does not have: every answer is
    JSON, whatever a caller would rather have, and there is one version.
    """

    # The scope that each method asks of a token; a method that is not named is closed.
    required_scopes: dict[str, str] = {}
    # True: for platform tokens; false: for desk tokens; null: for both.
    for_platform: bool | None = None

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        self.args, self.kwargs = args, kwargs
        self.request = self.initialize_request(request, *args, **kwargs)
        answer: HttpResponseBase
        try:
            self.initial(self.request, *args, **kwargs)
            answer = getattr(self, str(request.method).lower())(self.request, *args, **kwargs)
        except Exception as exc:
            answer = self.handle_exception(exc)
        for name, value in getattr(request, "budget", {}).items():
            answer.headers.setdefault(name, value)  # what is left of the limit that it counted for
        return answer

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        if request.method not in self.allowed_methods:
            raise MethodNotAllowed(self.allowed_methods)
        if request.method == "OPTIONS":
            return
        check_length(request._request)
        self.perform_authentication(request)
        self.check_permissions(request)
        self.check_throttles(request)

    def options(self, request: Any, *args: Any, **kwargs: Any) -> Answer:  # type: ignore[override]
        return Answer(status=204, headers={"Allow": ", ".join(self.allowed_methods)})
