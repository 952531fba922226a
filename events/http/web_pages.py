"""What the pages of every app share: their methods, their forms, and the question before an act."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.contrib import messages
from django.forms import BaseForm, Form
from django.http import HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import redirect, render

from events.http.refusals import Invalid

View = Callable[..., HttpResponseBase]


def page(*methods: str) -> Callable[[View], View]:
    """Declares the methods of a page, of ``GET`` and ``POST``. Others do not reach the view."""

    def decorate(view: View) -> View:
        view.methods = methods  # type: ignore[attr-defined]
        return view

    return decorate


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


def ask(
    request: HttpRequest,
    question: str,
    *consequences: str,
    act: str,
    perform: Callable[[], object],
    done: str | Callable[[Any], str],
    back: tuple[str, str],
    after: str = "",
    **context: object,
) -> HttpResponse:
    """Asks before a destructive act, says what the act ends, and performs it once it is confirmed.

    The page's form posts to the same address. Then the page ``after``, or the one back to, says
    that it is ``done``, which may depend on what ``perform`` returned. ``act`` labels the red
    button. ``back`` is a page's label and address. ``context`` may have ``keep``, the label of the
    link back (Cancel by default), ``elections``, which the page lists, and a ``form``, which is
    sent along.
    """
    place, address = back
    if request.method == "POST":
        outcome = perform()
        messages.success(request, done if isinstance(done, str) else done(outcome))
        return redirect(after or address)
    given = {
        "question": question,
        "consequences": consequences,
        "act": act,
        "place": place,
        "back": address,
        **context,
    }
    return render(request, "pages/confirm.html", given)
