"""Every page by its route in the URL map, and the kind of visitor that can open it."""

import secrets

from signals.contract.wheel import FILE
from tests.browser.stage import Stage
from tests.config.permissions import ACCOUNTS
from tests.config.permissions import OPEN as OF_ANYBODY
from tests.conformance.browser import SIGN_IN, Browser
from tests.routes import routes

VISITOR, USER, STAFF, HALFWAY = "a visitor", "the user", "staff", "staff before the second factor"
ONE = "<path:object_id>"

# Pages under /api/: the API's reference, and the contract, which programs get as JSON.
OF_API = ["api/docs", "api/v1", "api/hooks/signal"]
# Routes without a page of their own, and why.
NO_PAGE = {
    **dict.fromkeys(
        [route for route in routes() if route.startswith("api/") and route not in OF_API],
        "for programs",
    ),
    **dict.fromkeys(["healthz", "readyz", "metrics"], "for programs"),
    "control/jsi18n/": "a script",
    **dict.fromkeys(["activity.csv", f"client/{FILE}"], "a file"),
    "activity/stream": "a stream for scripts",
    "control/stream": "a stream for scripts",
    "notices/test": "only a form's target",
    "notices/chats/new/telegram": "the answer to a form",
    "notices/stop/<str:token>": "its link comes with a notice by mail",
    "webhooks/<str:webhook_id>/act": "buttons of the webhook's page",
    "control/(?P<url>.*)$": "unknown paths",
    "accounts/signup/password/": "accounts/signup/link redirects to it",
    "accounts/sessions/<int:pk>/end/": "redirects without another session",
    "accounts/password/set/": "redirects: every account has a password",
    "accounts/login/code/confirm/": "redirects: sign-in by emailed code is off",
    "accounts/2fa/recovery-codes/download/": "a file",
    **dict.fromkeys(
        [f"accounts/2fa/webauthn/keys/<int:pk>/{page}/" for page in ("remove", "edit")],
        "needs a passkey, which only a device can create",
    ),
}

OPEN = [
    "",
    "problems",
    "problems/<str:code>",
    *OF_API,
    *(ACCOUNTS + page for page in OF_ANYBODY - {"logout/", "2fa/authenticate/"}),
]


def who_sees(route: str) -> str | None:
    """Returns the visitor of a route's page, None if the route has no page."""
    if route in NO_PAGE:
        return None
    if route in OPEN:
        return VISITOR
    if route == "accounts/2fa/authenticate/":
        return HALFWAY
    of_second_factor = ("recovery-codes", "totp/deactivate", "2fa/reauthenticate")
    if route.startswith("control/") or any(part in route for part in of_second_factor):
        return STAFF
    if route.startswith(("desk", "bots", "webhooks", "notices", "activity", "accounts/")):
        return USER
    raise LookupError(f"Unknown route {route!r}: add its visitor, or the reason for no page.")


def address(stage: Stage, route: str) -> str:
    """Returns the path of a page, with the ids of existing objects."""
    if route == "accounts/email/cancel/":
        _change_address(stage, _new_address())
    if not {"<", "^"} & {*route}:
        return f"/{route}"
    model = route.split("/")[2] if route.startswith("control/") and ONE in route else ""
    if route.endswith("/reactivate/"):
        model = "deactivated"
    if "/subscription/" in route and route.endswith("/resume/"):
        model = "paused"
    values = {
        ONE: stage.ids.get(model, ""),
        "<str:bot_id>": stage.ids["bot"],
        "<str:event_id>": stage.ids["refusal"],
        "<str:webhook_id>": stage.ids["webhook"],
        "<str:chat_id>": stage.ids["chat"],
        "<str:secret_id>": stage.ids["secret"],
        "<str:code>": "direction_mismatch",
        "^(?P<app_label>desks|events|signals|tokens)/$": "tokens/",
    }
    for part, value in values.items():
        route = route.replace(part, value)
    if "^" in route or "<str:token>" in route:
        return _emailed_link(stage, route)
    return f"/{route}"


def _new_address() -> str:
    return f"new-{secrets.token_hex(4)}@example.com"


def _change_address(stage: Stage, new: str) -> None:
    with signed_in(stage, USER) as owner:
        owner.post("/accounts/email/", {"email": new, "action_add": ""})


def _emailed_link(stage: Stage, route: str) -> str:
    """Requests an email with a link to this route and returns the link's path."""
    new = _new_address()
    if "confirm-email" in route:
        _change_address(stage, new)
        return stage.last_link()
    with Browser(stage.service) as visitor:
        if "reset" in route:
            email = stage.service.seed["user"]["email"]
            visitor.post("/accounts/password/reset/", {"email": email})
        else:
            visitor.post("/accounts/signup/", {"email": new})
    return stage.last_link()


def signed_in(stage: Stage, who: str) -> Browser:
    """Returns a client signed in as this kind of visitor.

    Staff share a session, because a code of the second factor is valid only once.
    """
    visitor = Browser(stage.service)
    seed = stage.service.seed
    if who in (USER, STAFF):
        account = seed["user" if who == USER else "admin"]
        if who == STAFF and stage.staff:
            visitor.http.cookies.update(stage.staff)
        else:
            visitor.sign_in(account)
        visitor.post("/accounts/reauthenticate/", {"password": account["password"]})
    if who == STAFF and not stage.staff:
        visitor.post("/accounts/2fa/recovery-codes/generate/", {})
        stage.staff.update(visitor.http.cookies)
    elif who == HALFWAY:
        admin = seed["admin"]
        visitor.post(SIGN_IN, {"login": admin["email"], "password": admin["password"]})
    return visitor
