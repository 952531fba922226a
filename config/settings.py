"""Settings. Every one that an operator may change is described in .env.example."""

from config import browsers
from config.environment import (
    ROOT,
    cache,
    database,
    env,
    flag,
    hosts_of,
    keys,
    level,
    limit,
    metrics_token,
    number,
    secret_key,
)

# --- The environment -------------------------------------------------------------------------

DEBUG = flag("DEBUG", default=False)
SECRET_KEY = secret_key(debug=DEBUG)
TOKEN_KEYS = keys("TOKEN_KEYS", debug=DEBUG)
SECRET_KEYS = keys("SECRET_KEYS", debug=DEBUG)

BASE_URL: str = env.str("BASE_URL", default="http://localhost:8000")
ALLOWED_HOSTS: list[str] = env.list("ALLOWED_HOSTS", default=hosts_of(BASE_URL))
REQUIRE_HTTPS = flag("REQUIRE_HTTPS", default=not DEBUG)
REQUIRE_STAFF_MFA = flag("REQUIRE_STAFF_MFA", default=not DEBUG)
TRUSTED_PROXIES = number("TRUSTED_PROXIES", default=0, least=0)
THREADS = number("THREADS", default=16, least=1)

# How long a request may have travelled, and how far a sender's clock may be off: seconds.
TIMESTAMP_TOLERANCE = number("TIMESTAMP_TOLERANCE", default=300, least=1)

# --- Limits (contract, section 7): "<count>/<window>" or "off" ------------------------------------

LIMITS_URL: str = env.str("LIMITS_URL", default="")
LIMITS = {
    "automation": limit("LIMIT_AUTOMATION", "120/minute"),
    "platform": limit("LIMIT_PLATFORM", "6000/minute"),
    "reads": limit("LIMIT_READS", "600/minute"),
    "failures": limit("LIMIT_FAILURES", "60/minute"),
    "minting": limit("LIMIT_MINTING", "20/hour"),
    "changes": limit("LIMIT_CHANGES", "60/minute"),
    # How many refusals of one sender the log keeps; the answers are not limited by it.
    "refusals": "60/minute",
}

# The largest body that any path takes, in bytes.
DATA_UPLOAD_MAX_MEMORY_SIZE = 64 * 1024
# A waiting reader of the feed holds a thread: so many in one process, and of one token.
WAITING_READERS = number("WAITING_READERS", default=max(1, THREADS // 2), least=0)
WAITING_READERS_PER_TOKEN = 2

# --- Data --------------------------------------------------------------------------------------

DATABASES = {"default": database(THREADS)}
# Counters of failed sign-ins stand there: with few places, failing elsewhere would push them out.
CACHES = {"default": {**cache(), "max_entries": 100_000}}
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
    "drf_spectacular_sidecar",
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

MIDDLEWARE = [
    "config.middleware.request_id",
    "config.middleware.told",
    "config.middleware.browser_headers",
    "config.middleware.head_without_body",
    "django.middleware.http.ConditionalGetMiddleware",
    "config.middleware.private_by_default",
    "config.middleware.known_host",
    "config.middleware.plain_request",
    "config.middleware.answer_faults",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "config.session_middleware.SessionMiddleware",
    "config.middleware.page_form",
    "django.middleware.csrf.CsrfViewMiddleware",
    "config.session_middleware.AuthenticationMiddleware",
    "config.session_middleware.MessageMiddleware",
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
            ],
        },
    },
]

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["tokens.authentication.BearerAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["tokens.permissions.DeclaredScope"],
    "DEFAULT_THROTTLE_CLASSES": ["tokens.throttles.CallerThrottle"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": [],
    "DEFAULT_SCHEMA_CLASS": "events.api.schemas.Describer",
    "EXCEPTION_HANDLER": "config.problems.answer",
    "UNAUTHENTICATED_USER": None,
    "UNAUTHENTICATED_TOKEN": None,
}

SPECTACULAR_SETTINGS = {
    "TITLE": "Signal Intermediary Service",
    "VERSION": "1",
    "DESCRIPTION": (
        "Users own desks, an engine pulls them and deploys elected signals back, and automations "
        "push signals of their own. **All of it is paper.** A signal repeats the pair and the "
        "direction that the customer has elected: the service never infers one."
    ),
    "OAS_VERSION": "3.1.0",
    "SERVERS": [{"url": BASE_URL}],
    "DEFAULT_GENERATOR_CLASS": "config.openapi.Generator",
    "PREPROCESSING_HOOKS": ["config.openapi.in_order"],
    "POSTPROCESSING_HOOKS": [],
    "CAMELIZE_NAMES": True,  # {userId} in paths, as the contract writes them
    "SORT_OPERATIONS": False,
    "SORT_OPERATION_PARAMETERS": False,
    "ENFORCE_NON_BLANK_FIELDS": True,
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
}

# --- People ------------------------------------------------------------------------------------

AUTHENTICATION_BACKENDS = ["allauth.account.auth_backends.AuthenticationBackend"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.Argon2PasswordHasher"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
AUTH_PASSWORD_VALIDATORS[1]["OPTIONS"] = {"min_length": 10}  # type: ignore[assignment]

ACCOUNT_ADAPTER = "config.accounts.AccountAdapter"
ACCOUNT_FORMS = {"signup": "config.accounts.SignupForm"}
ACCOUNT_LOGIN_METHODS = {"email"}
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*"]
ACCOUNT_USER_MODEL_USERNAME_FIELD = None
ACCOUNT_EMAIL_VERIFICATION = "mandatory"
ACCOUNT_CONFIRM_EMAIL_ON_GET = False
ACCOUNT_LOGIN_ON_EMAIL_CONFIRMATION = True
ACCOUNT_PREVENT_ENUMERATION = True
ACCOUNT_CHANGE_EMAIL = True
ACCOUNT_LOGOUT_ON_PASSWORD_CHANGE = True
ACCOUNT_REAUTHENTICATION_REQUIRED = True
ACCOUNT_REAUTHENTICATION_TIMEOUT = 15 * 60
ACCOUNT_DEFAULT_HTTP_PROTOCOL = "https" if BASE_URL.startswith("https") else "http"
ACCOUNT_EMAIL_SUBJECT_PREFIX = ""
ALLAUTH_TRUSTED_PROXY_COUNT = TRUSTED_PROXIES
MFA_ADAPTER = "config.accounts.MfaAdapter"
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_TOTP_ISSUER = "Signal Intermediary Service"
USERSESSIONS_TRACK_ACTIVITY = False
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "desk"
ACCOUNT_LOGOUT_REDIRECT_URL = "home"

EMAIL = env.email_url("EMAIL_URL", default="consolemail://")
EMAIL_BACKEND = EMAIL["EMAIL_BACKEND"]
EMAIL_HOST = EMAIL.get("EMAIL_HOST", "")
EMAIL_PORT = EMAIL.get("EMAIL_PORT") or 25
EMAIL_HOST_USER = EMAIL.get("EMAIL_HOST_USER") or ""
EMAIL_HOST_PASSWORD = EMAIL.get("EMAIL_HOST_PASSWORD") or ""
EMAIL_USE_TLS = EMAIL.get("EMAIL_USE_TLS", False)
EMAIL_USE_SSL = EMAIL.get("EMAIL_USE_SSL", False)
EMAIL_FILE_PATH = EMAIL.get("EMAIL_FILE_PATH")  # of filemail://, a folder
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL: str = env.str("FROM_EMAIL", default=f"signals@{hosts_of(BASE_URL)[0]}")

# --- The browser -------------------------------------------------------------------------------

SESSION_ENGINE = "config.sessions"
SESSION_SERIALIZER = "config.sessions.SealedSerializer"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = REQUIRE_HTTPS
SESSION_COOKIE_NAME = "__Host-session" if REQUIRE_HTTPS else "session"
CSRF_COOKIE_NAME = "__Host-csrf" if REQUIRE_HTTPS else "csrf"
CSRF_COOKIE_HTTPONLY = False  # the contract's X-CSRFToken is read from it
CSRF_FAILURE_VIEW = "config.problems.csrf_failure"
CSRF_TRUSTED_ORIGINS = [BASE_URL]
# In the session, whose cookie is bound to this host; in one of their own they would not be.
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"
SECURE_SSL_REDIRECT = REQUIRE_HTTPS
SECURE_REDIRECT_EXEMPT = [
    r"^api/",
    r"^healthz$",
    r"^readyz$",
    r"^metrics$",
]  # refused there, not redirected
SECURE_HSTS_SECONDS = 365 * 24 * 3600 if REQUIRE_HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = REQUIRE_HTTPS
SECURE_REFERRER_POLICY = browsers.HEADERS["Referrer-Policy"]
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if TRUSTED_PROXIES else None
X_FRAME_OPTIONS = browsers.HEADERS["X-Frame-Options"]

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
USE_TZ = True
USE_I18N = False

# --- Logs --------------------------------------------------------------------------------------

LOG_LEVEL = level("LOG_LEVEL", default="info")
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": "config.logs.formatter"}},
    "handlers": {"terminal": {"class": "logging.StreamHandler", "formatter": "json"}},
    "root": {"handlers": ["terminal"], "level": LOG_LEVEL.upper()},
    "loggers": {
        "httpx": {"level": "WARNING"},
        # A refusal is an answer, not an event of the process; and a path may hold a credential.
        "django.request": {"level": "CRITICAL"},
        "django.security": {"level": "ERROR"},
    },
}

# --- Numbers -----------------------------------------------------------------------------------

METRICS_TOKEN = metrics_token()
