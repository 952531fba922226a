"""Data that the service attaches to a request while it handles it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.http import HttpRequest

_NAME = "service_state"


@dataclass(slots=True)
class RequestState:
    """``id`` is set by the first middleware, ``outcome`` by the view. Before that both are None."""

    id: str | None = None
    # The JSON object in the body. None until it is parsed.
    json_body: dict[str, Any] | None = None
    # The response headers with the state of the rate limit that counted the request.
    limit_headers: Mapping[str, str] = field(default_factory=dict)
    # The code of the refusal, or the outcome of the signal.
    outcome: str | None = None
    # Whether a failed credential was counted: each request counts at most once.
    failure_counted: bool = False
    # The door that serves a stream (``events.live.streams``). None: the process's threads.
    door: Any = None
    # The primary key of the signed-in user. None unless something loaded the user.
    user_pk: int | None = None


def state_of(request: HttpRequest) -> RequestState:
    """The state of this request. Repeated calls return the same object."""
    state: RequestState | None = vars(request).get(_NAME)
    if state is None:
        state = vars(request)[_NAME] = RequestState()
    return state
