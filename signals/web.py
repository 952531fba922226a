"""Who may see a customer's page, and which limits it counts against."""

import functools
from collections.abc import Callable

from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse

from desks.models import Automation, Desk, User
from events.http import limits
from events.http.pages import View, page
from events.http.refusals import NotAllowed, NotFound

Spends = str | None | Callable[[HttpRequest], str]


def customer_page(*methods: str, spends: Spends = "changes") -> Callable[[View], View]:
    """Declares a page of a signed-in customer. The view gets the desk after the request.

    A visitor is redirected to the sign-in page, and staff, who have no desk, to the control area.
    A GET counts against the user's limit ``pages``. A POST counts against the limit ``spends``, or
    the one that it returns for the request. If that is not ``pages``, the POST writes to the log
    and also counts against the desk's limit (contract, section 7). With None the page has no limit:
    a user can always withdraw or revoke.
    """

    def decorate(view: View) -> View:
        @page(*methods)
        @functools.wraps(view)
        def checked(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
            user = request.user
            if not isinstance(user, User):  # after a POST the sign-in leads to the desk
                is_form = request.method == "POST"
                return redirect_to_login(reverse("desk") if is_form else request.get_full_path())
            if user.is_staff:
                return redirect("admin:index")
            desk = _desk_of(user)
            if spends:
                limit = spends(request) if callable(spends) else spends
                if request.method != "POST":
                    limit = "pages"
                written = [] if limit == "pages" else limits.desk_limits(desk.public_id)
                limits.consume_all([(limit, str(user.pk)), *written])
            return view(request, desk, *args, **kwargs)

        return checked

    return decorate


def own_bot(desk: Desk, bot_id: str) -> Automation:
    """Returns the desk's bot. Raises ``NotFound`` if the desk has no such bot."""
    bot = Automation.objects.not_removed().filter(desk=desk, pk=bot_id).first()
    if bot is None:
        raise NotFound("The bot does not exist, or you have no access to it.")
    return bot


def back_to(bot: Automation) -> tuple[str, str]:
    """The label and the address of a bot's page, for a link back to it."""
    return bot.name, reverse("bot", args=[bot.pk])


def _desk_of(user: User) -> Desk:
    desk = Desk.objects.select_related("connection").filter(user=user).first()
    if desk is None:
        raise NotAllowed("This account has no desk. Ask the operators of this service to open one.")
    return desk
