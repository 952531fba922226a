"""Django's settings. .env.example describes those that an operator may change."""

from config import environment as env
from config.accounts.settings import *  # noqa: F403 - Django reads all of them from this module
from config.environment import ROOT
from config.logging_setup import logging_settings
from desks.ids import SIGNAL_ID, SUBSCRIPTION_ID, USER_ID

env.read_file()

# --- The environment -------------------------------------------------------------------------

DEBUG = env.flag("DEBUG", default=False)
# The first key of each kind signs and encrypts. All keys verify and decrypt.
SECRET_KEY, *SECRET_KEY_FALLBACKS = env.keys("SECRET_KEY", debug=DEBUG)
TOKEN_KEYS = env.hex_keys("TOKEN_KEYS", debug=DEBUG)
SECRET_KEYS = env.hex_keys("SECRET_KEYS", debug=DEBUG)

# For gunicorn and the live server. They are checked at the start of every command, as all are.
HOST = env.host()
PORT = env.number("PORT", 8000, most=env.HIGHEST_PORT)
LIVE_PORT = env.number("LIVE_PORT", 8010, most=env.HIGHEST_PORT)
TRUSTED_PROXIES = env.number("TRUSTED_PROXIES", 0, least=0)
BASE_URL = env.base_url(default=f"http://localhost:{PORT}")
ALLOWED_HOSTS = env.allowed_hosts(default=env.host_of(BASE_URL))
# Nobody but this machine can connect, and no proxy adds HTTPS: plain HTTP is served.
IS_LOCAL = env.is_loopback(HOST) and not TRUSTED_PROXIES and not BASE_URL.startswith("https:")
REQUIRE_HTTPS = env.flag("REQUIRE_HTTPS", default=not (DEBUG or IS_LOCAL))
REQUIRE_STAFF_MFA = env.flag("REQUIRE_STAFF_MFA", default=not DEBUG)
THREADS = env.number("THREADS", 16)

# Seconds by which a signature's timestamp may differ from the server's clock.
TIMESTAMP_TOLERANCE = env.number("TIMESTAMP_TOLERANCE", 300)

# --- Limits (contract, section 7): "<count>/<window>" or "off" ------------------------------------

LIMITS_URL = env.limits_url()
LIMITS = {
    "automation": env.limit("LIMIT_AUTOMATION", "120/minute"),
    "platform": env.limit("LIMIT_PLATFORM", "6000/minute"),
    "reads": env.limit("LIMIT_READS", "600/minute"),
    "large_reads": env.limit("LIMIT_LARGE_READS", "60/minute"),
    "failures": env.limit("LIMIT_FAILURES", "60/minute"),
    "minting": env.limit("LIMIT_MINTING", "20/hour"),
    "destinations": env.limit("LIMIT_DESTINATIONS", "20/hour"),
    "changes": env.limit("LIMIT_CHANGES", "60/minute"),
    "rewinds": env.limit("LIMIT_REWINDS", "10/hour"),
    "desk": env.limit("LIMIT_DESK", "600/minute"),
    "desk_day": env.limit("LIMIT_DESK_DAY", "50000/day"),
    "pages": env.limit("LIMIT_PAGES", "300/minute"),
    # How many refusals of one sender are recorded in the log, and how often it is recorded that
    # others are left out. Responses are not limited.
    "refusals": "60/minute",
    "refusals_suppressed": "1/minute",
}

# How many notices all processes together mail.
NOTICE_RATE = env.limit("NOTICE_RATE", "10/second")

# The maximum size of a request body, in bytes.
DATA_UPLOAD_MAX_MEMORY_SIZE = 64 * 1024
# More than a query has room for (limit_request_line): the API names the parameters that it refuses.
DATA_UPLOAD_MAX_NUMBER_FIELDS = 4096
# No form accepts a file. Without a handler, no uploaded file is read.
FILE_UPLOAD_HANDLERS: list[str] = []
# Each waiting feed reader occupies a thread. Maximum per process, and per token.
WAITING_READERS = env.number("WAITING_READERS", max(1, THREADS // 2), least=0)
WAITING_READERS_PER_TOKEN = 2
# Streams of one desk, platform token or member of staff in one process. None: any number.
LIMIT_STREAMS = env.number_or_off("LIMIT_STREAMS", 5)

# --- Webhooks and chats --------------------------------------------------------------------------

# Networks that are not public, to which webhooks may be sent all the same.
DELIVERY_ALLOW = env.networks("DELIVERY_ALLOW")
# How many messages all runners together send to one host, and for one desk.
DELIVERY_HOST_RATE = env.limit("DELIVERY_HOST_RATE", "100/second")
DELIVERY_DESK_RATE = env.limit("DELIVERY_DESK_RATE", "50/second")
# Hosts of ntfy to which users may have their notices sent.
NTFY_HOSTS = env.hosts("NTFY_HOSTS")
# The bot through which users have their notices sent to Telegram. Empty: none.
TELEGRAM_BOT, TELEGRAM_BOT_TOKEN = env.telegram()

# --- Data --------------------------------------------------------------------------------------

DATABASES = {"default": env.database(THREADS)}
# The standbys that live servers read (events/databases.py); None: they read the database.
REPLICA = env.replica(THREADS, DATABASES["default"])
PATRONI_PORT = env.number("PATRONI_PORT", 8008, most=env.HIGHEST_PORT)
DATABASE_ROUTERS: list[str] = []
WEB_CONCURRENCY = env.number("WEB_CONCURRENCY", env.usual_workers(DATABASES["default"]), most=1000)
CACHES = {"default": env.cache()}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_USER_MODEL = "desks.User"

# --- The application ---------------------------------------------------------------------------

INSTALLED_APPS = [
    "config.apps.ControlAreaConfig",
    "config",
    "signals",
    "tokens",
    "desks",
    "events",
    "rest_framework",
    "drf_spectacular",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.usersessions",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.humanize",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
]

# Pages, and the API paths that accept a session. ``serve_api`` sends the rest of the API through
# ``API_CHAIN`` instead. From the outside in: every response is logged and finished, those of other
# middleware too; hosts, methods and sizes are checked before sessions and forms are read.
MIDDLEWARE = [
    "config.middleware.serve_api",
    "config.middleware.log_requests",
    "config.middleware.finish_responses",
    "config.middleware.set_caching",
    "config.middleware.check_host",
    "config.middleware.HandleErrors",
    "django.middleware.security.SecurityMiddleware",
    "config.middleware.StaticFiles",
    "config.middleware.check_requests",
    "config.middleware.ValidateForms",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "config.accounts.sessions.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "allauth.account.middleware.AccountMiddleware",
]

ROOT_URLCONF = "config.urls"
WSGI_APPLICATION = "config.wsgi.application"
APPEND_SLASH = False

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [ROOT / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "tokens.forms.form_context",
            ],
        },
    },
]

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["tokens.callers.authentication.BearerAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["tokens.callers.permissions.DeclaredScope"],
    "DEFAULT_THROTTLE_CLASSES": ["tokens.callers.throttling.CallerThrottle"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": [],  # events.http.bodies reads bodies
    "DEFAULT_SCHEMA_CLASS": "events.http.schemas.ApiSchema",
    "UNAUTHENTICATED_USER": None,
}

SPECTACULAR_SETTINGS = {
    "TITLE": "Signal Intermediary",
    "VERSION": "1",
    "DESCRIPTION": (
        "Users own desks, an engine pulls them and deploys elected signals back, and "
        "bots push signals of their own. **All of it is paper.** A signal repeats "
        "the pair and the direction that the user has elected: the service never "
        "infers one.\n\n"
        "Members, kinds of events, codes and other values can be added without notice. Ignore "
        "members that you do not know, skip events of an unknown kind, treat a refusal of an "
        "unknown `code` by its status, and let a generated client read unknown values of a list "
        "as texts.\n\n"
        "Large answers to GET are compressed for clients that send `Accept-Encoding: "
        "gzip`."
    ),
    "OAS_VERSION": "3.1.0",
    "SERVERS": [{"url": BASE_URL}],
    "DEFAULT_GENERATOR_CLASS": "config.openapi.generator.Generator",
    "PREPROCESSING_HOOKS": ["config.openapi.generator.in_order"],
    "POSTPROCESSING_HOOKS": ["drf_spectacular.hooks.postprocess_schema_enum_id_removal"],
    "PATH_CONVERTER_OVERRIDES": {
        "userId": {**USER_ID, "description": "The desk."},
        "signalId": {**SIGNAL_ID, "description": "The signal."},
        "subscriptionId": {**SUBSCRIPTION_ID, "description": "The subscription."},
    },
    "CAMELIZE_NAMES": True,  # {userId} in paths, as the contract writes them
    "SORT_OPERATIONS": False,
    "SORT_OPERATION_PARAMETERS": False,
    "ENFORCE_NON_BLANK_FIELDS": True,
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
}

# --- Accounts ------------------------------------------------------------------------------------

globals().update(env.email())  # EMAIL_BACKEND, EMAIL_HOST and the others
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = env.from_email(default=f"signals@{env.host_of(BASE_URL)}")

# --- The browser -------------------------------------------------------------------------------

SESSION_ENGINE = "config.accounts.sessions"
SESSION_SERIALIZER = "config.accounts.sessions.SealedSerializer"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = REQUIRE_HTTPS
SESSION_COOKIE_NAME = "__Host-session" if REQUIRE_HTTPS else "session"
CSRF_COOKIE_NAME = "__Host-csrf" if REQUIRE_HTTPS else "csrf"
CSRF_COOKIE_HTTPONLY = False  # pages copy it into X-CSRFToken
CSRF_FAILURE_VIEW = "config.problems.csrf_failure"
CSRF_TRUSTED_ORIGINS = [BASE_URL]
# In the session, whose cookie is bound to this host. A separate cookie would not be.
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"
SECURE_SSL_REDIRECT = REQUIRE_HTTPS
# Plain HTTP is not redirected here: the API refuses it, and health checks and metrics are served.
SECURE_REDIRECT_EXEMPT = [r"^api/", r"^healthz$", r"^readyz$", r"^metrics$"]
SECURE_HSTS_SECONDS = 365 * 24 * 3600 if REQUIRE_HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = REQUIRE_HTTPS
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if TRUSTED_PROXIES else None

STATIC_URL = "/static/"
STATIC_ROOT = ROOT / "staticfiles"
STATICFILES_DIRS = [ROOT / "static"]
WHITENOISE_ALLOW_ALL_ORIGINS = False
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.InMemoryStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}

LANGUAGE_CODE = "en-gb"
TIME_ZONE = "UTC"
USE_I18N = False

# --- Logs --------------------------------------------------------------------------------------

LOG_LEVEL = env.text(
    "LOG_LEVEL", "info", "debug|info|warning|error", "one of debug, info, warning, error"
)
LOGGING = logging_settings(LOG_LEVEL)

# --- Metrics and traces ------------------------------------------------------------------------

TELEMETRY = env.telemetry()
METRICS_TOKEN = env.text(
    "METRICS_TOKEN", "", "([!-~]{32,})?", "32 random characters or more, or nothing"
)
