"""The pages of chats: adding one, its test, and removing it. The list is on the page of notices."""

import functools
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone

from events.http import limits
from events.http.names import NameField
from events.http.pages import View, ask, form_page, page, refusal_beside, sent
from events.http.refusals import NotFound
from signals.notices.chats import actions, telegram
from signals.notices.chats.models import Chat, Service
from signals.notices.chats.services import hosts
from signals.outbound.addresses import MAX_URL_LENGTH
from tokens.callers.staff import is_staff, require_staff, signed_in_recently


class ChatForm(forms.Form):
    """A new chat: its URL, and a name for the list."""

    url = forms.CharField(
        label="Address",
        max_length=MAX_URL_LENGTH,
        help_text="It begins with https://. We encrypt it and never show it again.",
        widget=forms.TextInput({"autocomplete": "off", "spellcheck": "false", "inputmode": "url"}),
        error_messages={"required": "Enter the address."},
    )
    name = NameField("So that you recognise it.", label="Name (optional)", required=False)


def chat_page(*methods: str, spends: str, recently: bool = True) -> Callable[[View], View]:
    """Declares a page of a signed-in user's chats. Staff need their second factor.

    ``recently`` asks for a sign-in of the last 15 minutes, and leads back to the page.
    """

    def decorate(view: View) -> View:
        @page(*methods)
        @login_required
        @functools.wraps(view)
        def checked(request: HttpRequest, **kwargs: str) -> HttpResponseBase:
            if is_staff(request):
                require_staff(request, recently=False)
            if recently and not signed_in_recently(request):
                back = request.path if "GET" in methods else reverse("new-chat")
                again = urlencode({"next": back})
                return redirect(f"{reverse('account_reauthenticate')}?{again}")
            limits.consume(spends if request.method == "POST" else "pages", str(request.user.pk))
            return view(request, **kwargs)

        return checked

    return decorate


@chat_page("GET", "POST", spends="minting")
def new(request: HttpRequest) -> HttpResponse:
    """Adds a chat."""
    user: Any = request.user
    form = ChatForm(sent(request))
    if form.is_valid():
        with refusal_beside(form):
            chat = actions.add(user=user, now=timezone.now(), **form.cleaned_data)
            messages.success(request, f"{chat.label} is added. A first notice is on its way to it.")
            return redirect("notices")
    context = {"hosts": hosts()[Service.NTFY], "bot": telegram.bot_name()}
    return form_page(request, "chats/new.html", form, **context)


@chat_page("POST", spends="minting")
def new_telegram(request: HttpRequest) -> HttpResponse:
    """Shows a link to the bot at Telegram with a new code, this once."""
    user: Any = request.user
    if not telegram.is_on():
        raise NotFound("This service has no bot at Telegram.")
    link = telegram.link_of(actions.new_code(user=user, now=timezone.now()))
    return render(request, "chats/telegram.html", {"link": link, "bot": telegram.bot_name()})


@chat_page("POST", spends="changes", recently=False)
def test(request: HttpRequest, chat_id: str) -> HttpResponse:
    """Has a test sent to the chat."""
    chat = _own(request, chat_id)
    actions.request_test(chat=chat, now=timezone.now())
    sentence = f"A test is on its way to {chat.label}. Reload this page to see what became of it."
    messages.success(request, sentence)
    return redirect("notices")


@chat_page("GET", "POST", spends="changes")
def remove(request: HttpRequest, chat_id: str) -> HttpResponse:
    """Asks for confirmation, then removes the chat."""
    chat = _own(request, chat_id)
    if request.method == "POST":
        actions.remove(chat=chat, now=timezone.now())
        messages.success(request, f"{chat.label} is removed.")
        return redirect("notices")
    return ask(
        request,
        f"Remove {chat.label}?",
        "It is sent no more notices, and its address is deleted. Notices still come by mail.",
        act="Remove",
        back=("Notices", reverse("notices")),
    )


def _own(request: HttpRequest, chat_id: str) -> Chat:
    """The user's chat. Raises ``NotFound`` if the user has no such one."""
    found = Chat.objects.filter(user=request.user.pk, public_id=chat_id).first()
    if found is None:
        raise NotFound("The chat does not exist, or you have no access to it.")
    return found
