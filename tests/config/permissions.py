"""Who may do what, as a table: every route and every method, by everybody there is.

``tests/config/test_permission_matrix.py`` compares it with the service.
"""

from desks.models import Automation, Card, Desk, Election, User
from events.models import Event
from signals.contract.wheel import FILE
from signals.intake.models import Signal
from signals.webhooks.models import Subscription
from tokens.models import SigningSecret, Token

# --- Everybody there is ---------------------------------------------------------------------------

NOBODY = "nobody"
OWN, OTHER = "the desk's token", "another desk's token"
READ, WRITE, BOTH = "a reading token", "a writing token", "a reading and writing token"
REVOKED, EXPIRED = "a revoked token", "an expired token"
OWNER, CUSTOMER = "the desk's owner", "another customer"
STAFF, MFA = "staff without a second factor", "staff with a second factor"
LONG_AGO = "staff who signed in long ago"
OVER = "staff whose session is too old"
BOT, FLOOR, NOX = "the bot's signature", "the Floor's signature", "the Nox's signature"

PLATFORM = (READ, WRITE, BOTH)
CUSTOMERS = (OWNER, CUSTOMER)
SESSIONS = (*CUSTOMERS, STAFF, MFA, LONG_AGO)
SIGNATURES = (BOT, FLOOR, NOX)
EVERYBODY = (NOBODY, OWN, OTHER, *PLATFORM, REVOKED, EXPIRED, *SESSIONS, OVER, *SIGNATURES)

# --- What becomes of a request --------------------------------------------------------------------

# Let in: whatever the view then makes of it, a form with faults beside it too.
IN = "in"
# Led to the page that asks who one is, to the control area, or to prove again who one is.
SIGN_IN, CONTROL, PROVE = "/accounts/login/", "/control/", "/accounts/reauthenticate/"

Row = dict[str, str]


def row(default: str, *parts: tuple[str | tuple[str, ...], str]) -> Row:
    """The outcome for each caller: the default, except for these."""
    found = dict.fromkeys(EVERYBODY, default)
    for who, outcome in parts:
        found |= dict.fromkeys([who] if isinstance(who, str) else who, outcome)
    return found


# Where only a token counts.
OF_TOKENS = row("credentials_missing", ((REVOKED, EXPIRED), "token_invalid"))
READING = OF_TOKENS | {OWN: IN, OTHER: IN, READ: IN, WRITE: "scope_missing", BOTH: IN}
PULLING = READING | {OWN: "not_allowed", OTHER: "not_allowed"}
PUSHING = PULLING | {READ: "scope_missing", WRITE: IN}
# Where only a session counts.
OF_CUSTOMERS = row(SIGN_IN, (CUSTOMERS, IN), ((STAFF, MFA, LONG_AGO), CONTROL))
OF_THE_OWNER = OF_CUSTOMERS | {CUSTOMER: "not_found"}
OF_NOTICES = row(SIGN_IN, (SESSIONS, IN)) | {STAFF: "second_factor_required"}
OF_CHATS = OF_NOTICES | {LONG_AGO: PROVE}
OF_OWN_CHATS = OF_CHATS | dict.fromkeys((CUSTOMER, MFA, LONG_AGO), "not_found")
PROVING = {LONG_AGO: PROVE}
OF_STAFF = row(
    SIGN_IN,
    (CUSTOMERS, "not_allowed"),
    (STAFF, "second_factor_required"),
    ((MFA, LONG_AGO), IN),
)
CHANGING = OF_STAFF | {LONG_AGO: "reauthentication_required"}
FORM = {"GET": OF_STAFF | {LONG_AGO: PROVE}, "POST": CHANGING}
NOT_THERE = OF_STAFF | {MFA: "not_found", LONG_AGO: "not_found"}
SIGNING = {
    "POST floor": PUSHING | {BOT: "signature_invalid", FLOOR: IN, NOX: "signature_invalid"},
    "POST nox": PUSHING | {BOT: "signature_invalid", FLOOR: "floor_secret_refused", NOX: IN},
    "POST tradingview": OF_TOKENS
    | dict.fromkeys((OWN, OTHER, *PLATFORM), "signature_missing")
    | {BOT: IN, FLOOR: "signature_invalid", NOX: "signature_invalid"},
}
PUBLIC = row(IN)
# Where both count: without either, and by signature, nobody is calling.
OF_BOTH = OF_TOKENS | {STAFF: "second_factor_required"}
MINTING = row("sign_in_required", ((REVOKED, EXPIRED), "token_invalid"))
REVOKING = OF_BOTH | dict.fromkeys((OWN, OTHER, *PLATFORM, *CUSTOMERS), "not_found")
REVOKING |= {MFA: IN, LONG_AGO: "reauthentication_required"}
# Changes of webhooks: no token may make them, and staff reach only the platform's.
BY_SESSION = row(
    "sign_in_required",
    ((REVOKED, EXPIRED), "token_invalid"),
    ((CUSTOMER, MFA), "not_found"),
    (STAFF, "second_factor_required"),
    (LONG_AGO, "reauthentication_required"),
)
WEBHOOK = "api/v1/subscriptions/<subscriptionId:subscription_id>"

ROWS: dict[str, dict[str, Row]] = {
    "api/v1": {"GET": PUBLIC},
    "api/v1/me": {"GET": READING | dict.fromkeys(PLATFORM, "not_allowed")},
    "api/v1/desks": {"GET": PULLING},
    "api/v1/desks/<userId:user_id>": {"GET": PULLING},
    "api/v1/desks/<userId:user_id>/signal": {"POST": PUSHING},
    "api/v1/events": {"GET": READING},
    "api/v1/bots": {"GET": READING | dict.fromkeys(PLATFORM, "not_allowed")},
    "api/v1/signals": {
        "GET of a fan-out": PULLING | {OWN: "invalid", OTHER: "invalid"},
        "GET of the desk's bot": READING | {OTHER: "not_found"},
    },
    "api/v1/signals/<signalId:signal_id>": {"GET": READING | {OTHER: "not_found"}},
    "api/v1/tokens": {
        "GET": OF_BOTH | dict.fromkeys((OWN, OTHER, *PLATFORM, *CUSTOMERS, MFA, LONG_AGO), IN),
        "POST a desk's": MINTING
        | dict.fromkeys(CUSTOMERS, IN)
        | dict.fromkeys((STAFF, MFA, LONG_AGO), "not_allowed"),
        "POST a platform's": MINTING
        | dict.fromkeys(CUSTOMERS, "not_allowed")
        | {STAFF: "second_factor_required", MFA: IN, LONG_AGO: "reauthentication_required"},
        "DELETE itself": REVOKING
        | dict.fromkeys((OWN, OTHER, *PLATFORM), IN)
        | dict.fromkeys((*CUSTOMERS, MFA), "invalid"),
        "DELETE the desk's": REVOKING | {OWN: IN, OWNER: IN},
        "DELETE the reading one": REVOKING | {READ: IN},
    },
    "api/v1/subscriptions": {
        "GET": OF_BOTH
        | dict.fromkeys((OWN, OTHER, READ, BOTH, *CUSTOMERS, MFA, LONG_AGO), IN)
        | {WRITE: "scope_missing"},
        "POST a webhook": BY_SESSION | dict.fromkeys((*CUSTOMERS, MFA), IN),
    },
    WEBHOOK: {
        "GET the desk's": OF_BOTH
        | dict.fromkeys((OTHER, READ, BOTH, CUSTOMER, MFA, LONG_AGO), "not_found")
        | {OWN: IN, OWNER: IN, WRITE: "scope_missing"},
        "PATCH paused": BY_SESSION | {OWNER: IN},
        "DELETE the desk's": BY_SESSION | {OWNER: IN},
    },
    f"{WEBHOOK}/secret": {"POST": BY_SESSION | {OWNER: IN}},
    f"{WEBHOOK}/test": {"POST": BY_SESSION | {OWNER: IN}},
    f"{WEBHOOK}/rewind": {"POST": BY_SESSION | dict.fromkeys((*CUSTOMERS, MFA), "invalid")},
    f"{WEBHOOK}/resend": {"POST": BY_SESSION | dict.fromkeys((*CUSTOMERS, MFA), "invalid")},
    f"{WEBHOOK}/skip": {"POST all": BY_SESSION | {OWNER: IN}},
    f"{WEBHOOK}/attempts": {
        "GET the desk's": OF_BOTH
        | dict.fromkeys((OTHER, READ, BOTH, CUSTOMER, MFA, LONG_AGO), "not_found")
        | {OWN: IN, OWNER: IN, WRITE: "scope_missing"},
    },
    "api/hooks/signal": {"GET": PUBLIC, **SIGNING},
    "api/hooks/check": SIGNING,
    "api/schema": {"GET": PUBLIC},
    "api/docs": {"GET": PUBLIC},
    "": {"GET": PUBLIC, "POST": PUBLIC},
    "problems": {"GET": PUBLIC},
    "problems/<str:code>": {"GET": PUBLIC},
    f"client/{FILE}": {"GET": PUBLIC},
    "healthz": {"GET": PUBLIC},
    "readyz": {"GET": PUBLIC},
    "metrics": {"GET": row("not_found")},
    "desk": {"GET": OF_CUSTOMERS},
    "activity": {"GET": OF_CUSTOMERS},
    "activity.csv": {"GET": OF_CUSTOMERS},
    "activity/stream": {"GET": OF_CUSTOMERS},
    "activity/<str:event_id>": {"GET": OF_THE_OWNER},
    "desk/connect": {"GET": OF_CUSTOMERS, "POST": OF_CUSTOMERS},
    "desk/disconnect": {"GET": OF_CUSTOMERS, "POST": OF_CUSTOMERS},
    "desk/enrol": {"GET": OF_CUSTOMERS, "POST": OF_CUSTOMERS},
    "desk/withdraw": {"GET": OF_CUSTOMERS, "POST": OF_CUSTOMERS},
    "desk/token": {"GET": OF_CUSTOMERS, "POST": OF_CUSTOMERS},
    "desk/end": {"GET": OF_CUSTOMERS, "POST": OF_CUSTOMERS},
    "desk/token/revoke": {"GET": OF_CUSTOMERS, "POST": OF_CUSTOMERS},
    "bots": {"GET": OF_CUSTOMERS, "POST": OF_CUSTOMERS},
    "bots/<str:bot_id>": {"GET": OF_THE_OWNER},
    "bots/<str:bot_id>/send": {"GET": OF_THE_OWNER, "POST": OF_THE_OWNER},
    "bots/<str:bot_id>/tradingview": {"GET": OF_THE_OWNER},
    "bots/<str:bot_id>/check": {"GET": OF_THE_OWNER, "POST": OF_THE_OWNER},
    "bots/<str:bot_id>/alarm": {"GET": OF_THE_OWNER, "POST": OF_THE_OWNER},
    "bots/<str:bot_id>/elect": {"GET": OF_THE_OWNER, "POST": OF_THE_OWNER},
    "bots/<str:bot_id>/withdraw": {"GET": OF_THE_OWNER, "POST": OF_THE_OWNER},
    "bots/<str:bot_id>/secret": {"GET": OF_THE_OWNER, "POST": OF_THE_OWNER},
    "bots/<str:bot_id>/secrets/<str:secret_id>/end": {"GET": OF_THE_OWNER, "POST": OF_THE_OWNER},
    "bots/<str:bot_id>/remove": {"GET": OF_THE_OWNER, "POST": OF_THE_OWNER},
    "notices": {"GET": OF_NOTICES, "POST": OF_NOTICES},
    "notices/test": {"POST": OF_NOTICES},
    "notices/chats/new": {"GET": OF_CHATS, "POST": OF_CHATS},
    "notices/chats/new/telegram": {"POST": OF_CHATS},
    "notices/chats/<str:chat_id>/remove": {
        "GET": OF_OWN_CHATS | PROVING,
        "POST": OF_OWN_CHATS | PROVING,
    },
    "notices/stop/<str:token>": {"GET": PUBLIC, "POST": PUBLIC},
    "webhooks": {"GET": OF_CUSTOMERS},
    "webhooks/new": {"GET": OF_CUSTOMERS, "POST": OF_CUSTOMERS},
    "webhooks/<str:webhook_id>": {"GET": OF_THE_OWNER},
    "webhooks/<str:webhook_id>/act": {
        "POST": OF_THE_OWNER | {OWNER: "invalid"},
    },
    "webhooks/<str:webhook_id>/change": {"GET": OF_THE_OWNER, "POST": OF_THE_OWNER},
    "webhooks/<str:webhook_id>/secret": {"GET": OF_THE_OWNER, "POST": OF_THE_OWNER},
    "webhooks/<str:webhook_id>/again": {"GET": OF_THE_OWNER, "POST": OF_THE_OWNER},
    "webhooks/<str:webhook_id>/skip": {
        "GET": OF_THE_OWNER,
        "POST": OF_THE_OWNER | {OWNER: "invalid"},
    },
    "webhooks/<str:webhook_id>/remove": {"GET": OF_THE_OWNER, "POST": OF_THE_OWNER},
    "accounts/data/": {"GET": OF_CUSTOMERS, "POST": OF_CUSTOMERS},
    "accounts/close/": {"GET": OF_CUSTOMERS, "POST": OF_CUSTOMERS},
    # The control area: the same for all of its pages. Whatever is posted asks for a fresh proof.
    "control/": {"GET": OF_STAFF, "POST": CHANGING},
    "control/stream": {"GET": OF_STAFF},
    "control/jsi18n/": {"GET": OF_STAFF, "POST": CHANGING | {MFA: "method_not_allowed"}},
    "control/^(?P<app_label>desks|events|signals|tokens)/$": {"GET": OF_STAFF, "POST": CHANGING},
    "control/(?P<url>.*)$": {"GET": NOT_THERE, "POST": CHANGING | {MFA: "not_found"}},
}
MODELS = (Automation, Card, Desk, Election, Event, Signal, SigningSecret, Subscription, Token, User)
ONE = "<path:object_id>"
for model in MODELS:
    place = f"control/{model._meta.app_label}/{model._meta.model_name}"
    ROWS[f"{place}/"] = {"GET": OF_STAFF, "POST": CHANGING}
    # What is there to be read is changed by nobody.
    ROWS[f"{place}/{ONE}/change/"] = {"GET": OF_STAFF, "POST": CHANGING | {MFA: "not_allowed"}}
for page in (
    "desks/card/publish",
    f"desks/card/{ONE}/retire",
    f"desks/user/{ONE}/deactivate",
    "tokens/signingsecret/generate-floor",
    "tokens/signingsecret/generate-nox",
    f"tokens/signingsecret/{ONE}/end",
    "signals/subscription/new",
    *(
        f"signals/subscription/{ONE}/{act}"
        for act in ("test", "pause", "change-webhook", "secret", "rewind", "remove")
    ),
    *(f"signals/subscription/{ONE}/{act}" for act in ("again", "skip")),
    "tokens/token/mint",
    f"tokens/token/{ONE}/revoke",
):
    ROWS[f"control/{page}/"] = FORM
# What goes on is not resumed.
ROWS[f"control/signals/subscription/{ONE}/resume/"] = {
    "GET": FORM["GET"] | {MFA: "invalid"},
    "POST": FORM["POST"] | {MFA: "invalid"},
}
# Whom nobody has shut out is not let in again.
ROWS[f"control/desks/user/{ONE}/reactivate/"] = {
    "GET": FORM["GET"] | {MFA: "invalid"},
    "POST": FORM["POST"] | {MFA: "invalid"},
}

# The framework's account pages: those that anybody sees, and those that ask who one is. Tokens and
# signatures count for nothing there. What each does is tested with the accounts.
ACCOUNTS = "accounts/"
OPEN = {
    "login/",
    "logout/",
    "inactive/",
    "signup/",
    "signup/sent/",
    "signup/link/<str:token>/",
    "signup/password/",
    "confirm-email/",
    "^confirm-email/(?P<key>[-:\\w]+)/$",
    "login/code/confirm/",
    "password/reset/",
    "password/reset/done/",
    "password/reset/key/done/",
    "^password/reset/key/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>.+)/$",
    "2fa/authenticate/",
}
SIGNED_IN = {
    "reauthenticate/",
    "email/",
    "email/cancel/",
    "preferences/",
    "password/change/",
    "password/set/",
    "2fa/",
    "2fa/reauthenticate/",
    "2fa/totp/activate/",
    "2fa/totp/deactivate/",
    "2fa/recovery-codes/",
    "2fa/recovery-codes/generate/",
    "2fa/recovery-codes/download/",
    "2fa/webauthn/",
    "2fa/webauthn/add/",
    "2fa/webauthn/reauthenticate/",
    "2fa/webauthn/keys/<int:pk>/remove/",
    "2fa/webauthn/keys/<int:pk>/edit/",
    "sessions/",
    "sessions/end/",
    "sessions/<int:pk>/end/",
}
