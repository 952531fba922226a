"""Who may see a page of a signed-in user, and which limits it counts against."""

import functools
from collections.abc import Callable

from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse

from desks.models import Automation, Desk, User
from events.http import rate_limits
from events.http.refusals import NotAllowed, found_or_404
from events.http.web_pages import View, page
from tokens.callers.staff import is_staff, require_staff, signed_in_recently

Spends = str | None | Callable[[HttpRequest], str]
# What a view gets after the request; or the answer, if the user may not see the page.
Admitted = Desk | User | HttpResponse

PAGES = "pages"  # the limit of page views


def customer_page(
    *methods: str, spends: Spends = "changes", recently: bool = False
) -> Callable[[View], View]:
    """Declares a page of a signed-in customer. The view gets the desk.

    Staff, who have no desk, are redirected to the control area. A GET counts against the user's
    limit ``pages``. A POST counts against the limit ``spends``, or the one that it returns for the
    request, as in ``rate_limits.consume_change``. If that is not ``pages``, the POST writes to the
    log and also counts against the desk's limit (contract, section 7). With None the page has no
    limit: a user can always withdraw or revoke. ``recently`` asks for a sign-in of the last 15
    minutes.
    """

    def admit(request: HttpRequest, user: User) -> Admitted:
        if user.is_staff:
            return redirect("admin:index")
        desk = _desk_of(user)
        if limit := _limit_of(spends, request):
            written = [] if limit == PAGES else rate_limits.desk_limits(desk.public_id)
            rate_limits.consume_change(limit, str(user.pk), written)
        return desk

    return _signed_in_page(methods, admit, spends, recently)


def user_page(*methods: str, spends: str = PAGES, recently: bool = False) -> Callable[[View], View]:
    """Declares a page of any signed-in user, whom the view gets. Staff need their second factor.

    A GET counts against the user's limit ``pages``, a POST against ``spends``. ``recently`` asks
    for a sign-in of the last 15 minutes.
    """

    def admit(request: HttpRequest, user: User) -> Admitted:
        if is_staff(request):
            require_staff(request, recently=False)
        rate_limits.consume_change(spends if request.method == "POST" else PAGES, str(user.pk))
        return user

    return _signed_in_page(methods, admit, spends, recently)


def own_bot(desk: Desk, bot_id: str) -> Automation:
    """Returns the desk's bot. Raises ``NotFound`` if the desk has no such bot."""
    bots = Automation.objects.not_removed().filter(desk=desk, pk=bot_id)
    return found_or_404(bots.first(), "bot")


def back_to(bot: Automation) -> tuple[str, str]:
    """The label and the address of a bot's page, for a link back to it."""
    return bot.name, reverse("bot", args=[bot.pk])


def _limit_of(spends: Spends, request: HttpRequest) -> str | None:
    """The limit of the user against which a request for a page counts; None if there is none."""
    if spends and request.method != "POST":
        return PAGES
    return spends(request) if callable(spends) else spends


def _signed_in_page(
    methods: tuple[str, ...],
    admit: Callable[[HttpRequest, User], Admitted],
    spends: Spends,
    recently: bool,
) -> Callable[[View], View]:
    """A visitor is redirected to the sign-in page, which leads back to the page, or to the desk.

    So does the page that asks for a recent sign-in; from a button it leads to the page above. The
    query is kept: it can decide what a page asks. What the view made is counted, unless it refused.
    """

    def decorate(view: View) -> View:
        @page(*methods)
        @functools.wraps(view)
        def checked(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
            user = request.user
            if not isinstance(user, User):
                is_form = request.method == "POST"
                return redirect_to_login(reverse("desk") if is_form else request.get_full_path())
            admitted = admit(request, user)
            if isinstance(admitted, HttpResponse):
                return admitted
            if recently and not signed_in_recently(request):
                above = request.path.rpartition("/")[0]
                back = request.get_full_path() if "GET" in methods else above
                return redirect_to_login(back, "account_reauthenticate")
            response = view(request, admitted, *args, **kwargs)
            if (limit := _limit_of(spends, request)) and response.status_code < 400:
                rate_limits.count_made(limit, str(user.pk))
            return response

        return checked

    return decorate


def _desk_of(user: User) -> Desk:
    desk = Desk.objects.select_related("connection").filter(user=user).first()
    if desk is None:
        raise NotAllowed("This account has no desk. Ask the operators of this service to open one.")
    return desk
