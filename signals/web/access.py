"""What all pages share: allowed methods, access control, rate limits and form handling."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.contrib.auth.views import redirect_to_login
from django.forms import BaseForm, Form
from django.http import HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse

from desks.models import Automation, Desk, User
from events.http import limits
from events.http.refusals import Invalid, NotAllowed, NotFound

View = Callable[..., HttpResponseBase]
Wrapper = Callable[[View], View]
Spends = str | None | Callable[[HttpRequest], str]


def page(*methods: str) -> Wrapper:
    """Declares the methods of a page, of ``GET`` and ``POST``. Others do not reach the view."""

    def decorate(view: View) -> View:
        view.methods = methods  # type: ignore[attr-defined]
        return view

    return decorate


def customer_page(*methods: str, spends: Spends = "changes") -> Wrapper:
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
            if not isinstance(user, User):
                return _ask_to_sign_in(request)
            if user.is_staff:
                return redirect("admin:index")
            desk = _desk_of(user)
            if spends:
                limit = spends(request) if callable(spends) else spends
                _spend(limit if request.method == "POST" else "pages", user, desk)
            return view(request, desk, *args, **kwargs)

        return checked

    return decorate


def _spend(limit: str, user: User, desk: Desk) -> None:
    written = [] if limit == "pages" else limits.desk_limits(desk.public_id)
    limits.consume_all([(limit, str(user.pk)), *written])


def own_bot(desk: Desk, bot_id: str) -> Automation:
    """Returns the desk's bot. Raises ``NotFound`` if the desk has no such bot."""
    bot = Automation.objects.not_removed().filter(desk=desk, pk=bot_id).first()
    if bot is None:
        raise NotFound("The bot does not exist, or you have no access to it.")
    return bot


def back_to(bot: Automation) -> tuple[str, str]:
    """The label and the address of a bot's page, for a link back to it."""
    return bot.name, reverse("bot", args=[bot.pk])


def sent(request: HttpRequest) -> QueryDict | None:
    """Returns the data for a form: the submitted fields, or None for a GET."""
    return request.POST if request.method == "POST" else None


@contextmanager
def refusal_beside(form: Form) -> Iterator[None]:
    """Adds the errors of an ``Invalid`` that an action raises to the form, beside their fields."""
    try:
        yield
    except Invalid as refusal:
        errors = refusal.members.get("errors", [])
        for error in errors:
            form.add_error(
                error["field"] if error["field"] in form.fields else None, error["detail"]
            )
        if not errors:
            form.add_error(None, refusal.detail)


def form_page(
    request: HttpRequest, template: str, form: BaseForm, **context: object
) -> HttpResponse:
    """Renders a page with a form. A submitted form has errors, so its status is 422."""
    status = 422 if form.is_bound else 200
    return render(request, template, {"form": form, **context}, status=status)


def _ask_to_sign_in(request: HttpRequest) -> HttpResponse:
    """Redirects to the sign-in page, which returns to this page, or after a POST to the desk."""
    returning = request.get_full_path() if request.method != "POST" else reverse("desk")
    return redirect_to_login(returning)


def _desk_of(user: User) -> Desk:
    desk = Desk.objects.select_related("connection").filter(user=user).first()
    if desk is None:
        raise NotAllowed("This account has no desk. Ask the operators of this service to open one.")
    return desk
