"""Which limits the account pages count against (contract, section 7)."""

import functools
from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase

from events.http import limits
from signals.page_access import PAGES

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


def count_views(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Counts each view of the page by a signed-in user against the limit ``pages``."""

    @functools.wraps(view)
    def counted(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        if request.method != "POST" and request.user.is_authenticated:
            limits.consume(PAGES, str(request.user.pk))
        return view(request, *args, **kwargs)

    return counted
