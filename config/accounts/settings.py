"""Django's and allauth's settings of accounts that no environment variable changes."""

AUTHENTICATION_BACKENDS = ["allauth.account.auth_backends.AuthenticationBackend"]
PASSWORD_HASHERS = ["config.accounts.hashing.PasswordHasher"]
MIN_PASSWORD_LENGTH = 10
_VALIDATION = "django.contrib.auth.password_validation"
AUTH_PASSWORD_VALIDATORS: list[dict[str, str | dict[str, int]]] = [
    {"NAME": f"{_VALIDATION}.UserAttributeSimilarityValidator"},
    {
        "NAME": f"{_VALIDATION}.MinimumLengthValidator",
        "OPTIONS": {"min_length": MIN_PASSWORD_LENGTH},
    },
    {"NAME": f"{_VALIDATION}.CommonPasswordValidator"},
    {"NAME": f"{_VALIDATION}.NumericPasswordValidator"},
]

ACCOUNT_ADAPTER = "config.accounts.adapters.AccountAdapter"
ACCOUNT_FORMS = {
    "add_email": "config.accounts.forms.AddEmailForm",
    "change_password": "config.accounts.forms.ChangePasswordForm",
    "login": "config.accounts.forms.LoginForm",
    "reset_password": "config.accounts.forms.ResetPasswordForm",
    "reset_password_from_key": "config.accounts.forms.ResetPasswordKeyForm",
}
ACCOUNT_LOGIN_METHODS = {"email"}
# The fields of accounts. The sign-up pages are our own.
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*"]
ACCOUNT_USER_MODEL_USERNAME_FIELD = None
ACCOUNT_EMAIL_VERIFICATION = "mandatory"
ACCOUNT_LOGIN_ON_EMAIL_CONFIRMATION = True
ACCOUNT_PREVENT_ENUMERATION = True
ACCOUNT_EMAIL_NOTIFICATIONS = True
# In addition to allauth's: sign-up mails to one address, and passwords from one client address. An
# address is asked to be confirmed once in the cooldown of the page that sends again.
ACCOUNT_RATE_LIMITS = {
    "signup_mail": "3/10m/key",
    "signup_password": "20/m/ip",
    "confirm_email": "1/60s/key",
}
ACCOUNT_LOGIN_ON_PASSWORD_RESET = True
ACCOUNT_CHANGE_EMAIL = True
ACCOUNT_LOGOUT_ON_PASSWORD_CHANGE = True
ACCOUNT_REAUTHENTICATION_REQUIRED = True
ACCOUNT_REAUTHENTICATION_TIMEOUT = 15 * 60
ACCOUNT_EMAIL_SUBJECT_PREFIX = ""
MFA_FORMS = {
    "authenticate": "config.accounts.second_factors.AuthenticateForm",
    "reauthenticate": "config.accounts.second_factors.ReauthenticateForm",
    "activate_totp": "config.accounts.second_factors.ActivateTOTPForm",
    "authenticate_webauthn": "config.accounts.second_factors.AuthenticatePasskeyForm",
    "reauthenticate_webauthn": "config.accounts.second_factors.ReauthenticatePasskeyForm",
    "add_webauthn": "config.accounts.second_factors.AddPasskeyForm",
    "edit_webauthn": "config.accounts.second_factors.RenamePasskeyForm",
}
MFA_ADAPTER = "config.accounts.second_factors.MfaAdapter"
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_TOTP_ISSUER = "Signal Intermediary"
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "desk"
ACCOUNT_LOGOUT_REDIRECT_URL = "home"
