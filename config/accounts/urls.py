"""The account pages, and what each is decorated with. Most pages are allauth's."""

import functools
from collections.abc import Iterable

from django.db import transaction
from django.http import HttpRequest, HttpResponseBase
from django.urls import URLPattern, URLResolver, include, path

from config.accounts import data_page, pages, preferences, second_factors, signup
from config.accounts.hashing import limit_hashing
from events.http import rate_limits
from events.http.web_pages import View
from signals.page_access import PAGES

# Pages whose change and its notice are one transaction. allauth tells of an added authenticator app
# and of new recovery codes after the commit.
WITH_NOTICE = {
    "account_change_password",
    "account_set_password",
    "account_reset_password_from_key",
    "account_confirm_email",
    "account_email_cancel",
    "mfa_deactivate_totp",
    "mfa_add_webauthn",
    "mfa_remove_webauthn",
}
# Pages whose form leads to a hash of a password (``config.accounts.hashing``).
HASHING = {
    "account_login",
    "account_signup_password",
    "account_reauthenticate",
    "account_change_password",
    "account_set_password",
    "account_reset_password_from_key",
}
# Pages whose views are not counted here: those of one's own data count them, a sign-out has no
# limit, and pages without a limit, such as the closing, lead to the reauthentication.
NOT_COUNTED = {
    "account_data",
    "account_close",
    "account_logout",
    "account_reauthenticate",
    "mfa_reauthenticate",
    "mfa_reauthenticate_webauthn",
}


def count_views(view: View) -> View:
    """Counts each view of the page by a signed-in user against the limit ``pages``."""

    @functools.wraps(view)
    def counted(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        if request.method != "POST" and request.user.is_authenticated:
            rate_limits.consume(PAGES, str(request.user.pk))
        return view(request, *args, **kwargs)

    return counted


def _decorate(patterns: Iterable[URLPattern | URLResolver]) -> None:
    """Decorates the pages, by their names. A request waits for its turn before its transaction."""
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            _decorate(pattern.url_patterns)
            continue
        name = pattern.name or ""
        if name in WITH_NOTICE:
            pattern.callback = transaction.atomic(pattern.callback)
        if name in HASHING:
            pattern.callback = limit_hashing(pattern.callback)
        if second_factors.is_protected(name):
            pattern.callback = second_factors.require(pattern.callback)
        if name not in NOT_COUNTED:
            pattern.callback = count_views(pattern.callback)


urlpatterns: list[URLPattern | URLResolver] = [
    # Listed before allauth's pages, so that these win.
    path("signup/", signup.sign_up, name="account_signup"),
    path("signup/sent/", signup.check_email, name="account_signup_sent"),
    path("signup/link/<str:token>/", signup.follow_link, name="account_signup_link"),
    path("signup/password/", signup.choose_password, name="account_signup_password"),
    path("password/reset/", pages.AskForReset.as_view(), name="account_reset_password"),
    path("password/reset/done/", pages.reset_sent, name="account_reset_password_done"),
    path("confirm-email/", pages.link_sent, name="account_email_verification_sent"),
    path("email/", pages.ChangeAddress.as_view(), name="account_email"),
    path("email/cancel/", pages.cancel_change, name="account_email_cancel"),
    path(
        "2fa/webauthn/reauthenticate/",
        pages.ReauthenticateWithKey.as_view(),
        name="mfa_reauthenticate_webauthn",
    ),
    path("sessions/", pages.list_sessions, name="usersessions_list"),
    path("sessions/end/", pages.end_sessions, name="end_other_sessions"),
    path("sessions/<int:pk>/end/", pages.end_sessions, name="end_session"),
    path("preferences/", preferences.preferences, name="account_preferences"),
    path("data/", data_page.own_data, name="account_data"),
    path("close/", data_page.close, name="account_close"),
    path("", include("allauth.urls")),
]
_decorate(urlpatterns)
