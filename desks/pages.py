"""What every page has in common: its methods, who may see it, and what a change costs."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.contrib.auth.views import redirect_to_login
from django.forms import Form
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse

from desks import limits
from desks.models import Automation, Desk, User
from events.refusals import Invalid, MethodNotAllowed, NotAllowed, NotFound

View = Callable[..., HttpResponse]
Wrapper = Callable[[View], View]

READING = {"GET": ["GET", "HEAD"], "POST": ["POST"]}


def page(*methods: str) -> Wrapper:
    """A page with these methods, of ``GET`` and ``POST``; another one is refused with ``Allow``."""
    allowed = [name for method in methods for name in READING[method]] + ["OPTIONS"]

    def decorate(view: View) -> View:
        @functools.wraps(view)
        def checked(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
            if request.method == "OPTIONS":
                return HttpResponse(status=204, headers={"Allow": ", ".join(allowed)})
            if request.method not in allowed:
                raise MethodNotAllowed(allowed)
            return view(request, *args, **kwargs)

        return checked

    return decorate


def customer_page(*methods: str, spends: str = "changes") -> Wrapper:
    """A page of a signed-in customer, whose view is given the desk after the request.

    Who is not signed in is asked to; staff, who have no desk, go to the control area. Each POST
    spends one of the user's ``changes`` or ``minting`` (contract, section 7).
    """

    def decorate(view: View) -> View:
        @page(*methods)
        @functools.wraps(view)
        def checked(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
            user = request.user
            if not isinstance(user, User):
                return _ask_to_sign_in(request)
            if user.is_staff:
                return redirect("admin:index")
            if request.method == "POST":
                limits.spend(spends, str(user.pk))
            return view(request, _desk_of(user), *args, **kwargs)

        return checked

    return decorate


def own_bot(desk: Desk, bot_id: str) -> Automation:
    """The desk's bot; raises ``NotFound`` for another's, as for one that there is not."""
    bot = Automation.objects.kept().filter(desk=desk, pk=bot_id).first()
    if bot is None:
        raise NotFound("There is no such bot, or it is not yours to see.")
    return bot


def sent(request: HttpRequest) -> QueryDict | None:
    """What a form is bound to: the fields that were sent, null where the page is only looked at."""
    return request.POST if request.method == "POST" else None


@contextmanager
def refusal_beside(form: Form) -> Iterator[None]:
    """An action that finds the form's wish ``Invalid`` says so beside the form."""
    try:
        yield
    except Invalid as refusal:
        errors = refusal.members.get("errors", [])
        form.add_error(None, [error["detail"] for error in errors] or refusal.detail)


def form_page(request: HttpRequest, template: str, form: Form, **context: object) -> HttpResponse:
    """The page that holds a form: as it is, or with what is wrong beside what was typed (422)."""
    status = 422 if form.is_bound else 200
    return render(request, template, {"form": form, **context}, status=status)


def _ask_to_sign_in(request: HttpRequest) -> HttpResponse:
    """After signing in one returns to the page; where a form was sent, to the desk."""
    returning = request.get_full_path() if request.method != "POST" else reverse("desk")
    return redirect_to_login(returning)


def _desk_of(user: User) -> Desk:
    desk = Desk.objects.select_related("connection").filter(user=user).first()
    if desk is None:
        raise NotAllowed("A desk is opened when its owner's address is verified.")
    return desk
