"""The pages "Check your email": which address they name, and when the mail can be sent again.

The address and the time are in a signed cookie of the visitor's own browser, so sending a mail
stores nothing. The pages say the same whether the address has an account or not.
"""

import time
from collections.abc import Callable

from django.conf import settings
from django.core import signing
from django.core.mail import EmailMessage
from django.core.mail.backends import console
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from config.environment import CONSOLE_MAIL

COOLDOWN = 60  # seconds before the same browser can send a mail to the same address again
MAX_AGE = 3600  # seconds for which the page names the address
SALT = "config.accounts.sent-mail"


def send(
    request: HttpRequest, page: str, address: str, deliver: Callable[[], HttpResponse | None]
) -> HttpResponse:
    """Sends a mail with ``deliver`` and redirects to ``page``, which names the address.

    Sends nothing during the cooldown: ``page`` then says how long to wait. ``deliver`` may return
    a response that replaces the redirect, such as that of a rate limit.
    """
    if wait_for(request, page, address):
        return redirect(f"{reverse(page)}?again")
    refused = deliver()
    if refused is not None:
        return refused
    answer = redirect(page)
    _remember(answer, page, address)
    return answer


def wait_for(request: HttpRequest, page: str, address: str) -> int:
    """The seconds until this browser can send this mail to the address again; 0 if at once."""
    last, at = _last(request, page)
    return max(0, COOLDOWN - int(time.time() - at)) if last == address else 0


def show(
    request: HttpRequest, page: str, template: str, *, known: str = "", **context: int
) -> HttpResponse:
    """Renders the page. Its status is 429 if the mail was just asked for again, too soon.

    ``known`` is the address if the service knows it without the cookie. The cooldown then begins
    with the first view of the page.
    """
    last, _ = _last(request, page)
    address = known or last
    wait = wait_for(request, page, address) if "again" in request.GET else 0
    is_printed = settings.EMAIL_BACKEND == CONSOLE_MAIL
    given = {"address": address, "wait": wait, "is_printed": is_printed, **context}
    answer = render(request, template, given, status=429 if wait else 200)
    if wait:
        answer["Retry-After"] = str(wait)
    if known and last != known:
        _remember(answer, page, known)
    return answer


def _remember(answer: HttpResponse, page: str, address: str) -> None:
    value = signing.dumps([page, address, int(time.time())], salt=SALT)
    answer.set_cookie(
        _cookie(), value, MAX_AGE, secure=settings.REQUIRE_HTTPS, httponly=True, samesite="Lax"
    )


def _last(request: HttpRequest, page: str) -> tuple[str, int]:
    """The address and Unix time of the last mail, if it was of this page; empty otherwise."""
    try:
        last_page, address, at = signing.loads(
            request.COOKIES.get(_cookie(), ""), salt=SALT, max_age=MAX_AGE
        )
    except signing.BadSignature:
        return "", 0
    return (address, at) if last_page == page else ("", 0)


def _cookie() -> str:
    return "__Host-sent" if settings.REQUIRE_HTTPS else "sent"


class PrintedMail(console.EmailBackend):
    """Prints mails to the terminal, as their readers see them. The default without a mail server.

    Prints whom a mail is for, its subject and its text, without the HTML that says the same.
    """

    def write_message(self, message: EmailMessage) -> None:
        lines = (
            f"Mail to {', '.join(message.recipients())}",
            f"Subject: {message.subject}",
            "",
            message.body.rstrip(),
            "-" * 79,
        )
        self.stream.write("\n".join(lines) + "\n")
