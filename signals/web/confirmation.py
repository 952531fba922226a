"""The page that asks before a destructive act. It says what the act ends.

A view shows it for GET. The page's form posts to the same address, where the view acts.
"""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render


def ask(
    request: HttpRequest,
    question: str,
    *consequences: str,
    act: str,
    back: tuple[str, str],
    **context: Any,
) -> HttpResponse:
    """Asks the question. ``act`` labels the red button. ``back`` is a page's label and address.

    ``context`` may have ``elections``, which the page lists, and a ``form``, whose fields it shows.
    """
    place, address = back
    given = {
        "question": question,
        "consequences": consequences,
        "act": act,
        "place": place,
        "back": address,
        **context,
    }
    return render(request, "pages/confirm.html", given)
