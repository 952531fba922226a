"""Every page that a person sees, by its route in the URL map, and who looks at it."""

from tests.browser.stage import Stage
from tests.conformance.client import SIGN_IN, Browser
from tests.routes import routes

VISITOR, USER, STAFF, HALFWAY = "a visitor", "the user", "staff", "somebody without the code"
ONE = "<path:object_id>"

# Routes that show no page of their own, and why.
NO_PAGE = {
    **dict.fromkeys(
        [route for route in routes() if route.startswith("api/") and route != "api/docs"],
        "for programs",
    ),
    **dict.fromkeys(["healthz", "readyz", "metrics"], "for programs"),
    **dict.fromkeys(
        [
            "desk/token/revoke",
            "desk/withdraw",
            "bots/<str:bot_id>/withdraw",
            "bots/<str:bot_id>/secrets/<str:secret_id>/end",
        ],
        "takes a form and leads to another page",
    ),
    "control/jsi18n/": "a script",
    "control/(?P<url>.*)$": "what there is not",
    "accounts/password/set/": "leads on: every account has a password",
    "accounts/login/code/confirm/": "leads on: nobody signs in by a mailed code",
    "accounts/2fa/recovery-codes/download/": "a file",
    **dict.fromkeys(
        [f"accounts/2fa/webauthn/keys/<int:pk>/{page}/" for page in ("remove", "edit")],
        "of a passkey, which only a device makes",
    ),
}

OPEN = [
    "",
    "problems",
    "problems/<str:code>",
    "api/docs",
    "accounts/login/",
    "accounts/inactive/",
    "accounts/signup/",
    "accounts/confirm-email/",
    "accounts/^confirm-email/(?P<key>[-:\\w]+)/$",
    "accounts/password/reset/",
    "accounts/password/reset/done/",
    "accounts/password/reset/key/done/",
    "accounts/^password/reset/key/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>.+)/$",
]


def who_sees(route: str) -> str | None:
    """Who looks at the page of a route; null where it shows none."""
    if route in NO_PAGE:
        return None
    if route in OPEN:
        return VISITOR
    if route == "accounts/2fa/authenticate/":
        return HALFWAY
    of_second_factor = ("recovery-codes", "totp/deactivate", "2fa/reauthenticate")
    if route.startswith("control/") or any(part in route for part in of_second_factor):
        return STAFF
    if route.startswith(("desk", "bots", "activity", "accounts/")):
        return USER
    raise LookupError(f"Nobody looks at {route!r}: say who does, or why it is no page.")


def address(stage: Stage, route: str) -> str:
    """The address of a page, about something that there is."""
    model = route.split("/")[2] if route.startswith("control/") and ONE in route else ""
    named = {
        ONE: stage.ids.get(model, ""),
        "<str:bot_id>": stage.ids["bot"],
        "<str:code>": "direction_mismatch",
        "^(?P<app_label>events|signals|tokens|desks)/$": "tokens/",
    }
    for part, value in named.items():
        route = route.replace(part, value)
    if "^" in route:
        return _mailed(stage, route)
    return f"/{route}"


def _mailed(stage: Stage, route: str) -> str:
    """A link that only a mail tells."""
    with Browser(stage.service) as visitor:
        if "reset" in route:
            email = stage.service.seed["user"]["email"]
            visitor.post("/accounts/password/reset/", {"email": email})
        else:
            form = {"email": "new@example.com", "password1": "correct horse battery staple"}
            visitor.post("/accounts/signup/", form)
    return stage.last_link()


def signed_in(stage: Stage, who: str) -> Browser:
    """Somebody at the browser, as far signed in as they are."""
    visitor = Browser(stage.service)
    seed = stage.service.seed
    if who in (USER, STAFF):
        account = seed["user" if who == USER else "admin"]
        visitor.sign_in(account)
        visitor.post("/accounts/reauthenticate/", {"password": account["password"]})
    if who == STAFF:
        visitor.post("/accounts/2fa/recovery-codes/generate/", {})
    elif who == HALFWAY:
        admin = seed["admin"]
        visitor.post(SIGN_IN, {"login": admin["email"], "password": admin["password"]})
    return visitor
