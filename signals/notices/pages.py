"""The pages of a user's notices: which ones, their chats, and the links in mails."""

from django.contrib import messages
from django.db import transaction
from django.forms import CharField, CheckboxSelectMultiple, Form, MultipleChoiceField, TextInput
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt

from desks.models import Chat, NoticeChoice, QueuedNotice, User
from desks.models.chat import MAX_CHATS, Service
from desks.models.notice import MAIL, OF_A_DESK, OF_STAFF, NoticeKind
from events.http.name_rules import NameField
from events.http.refusals import NotFound, found_or_404
from events.http.web_pages import ask, form_page, page, refusal_beside, sent
from signals.notices.chats import actions, services, telegram
from signals.notices.chats.sending import outcome_of
from signals.notices.sending import CAN_BE_OFF, read_stop_link
from signals.notices.texts import new_notice
from signals.outbound.addresses import MAX_URL_LENGTH
from signals.page_access import user_page


class NoticesForm(Form):
    """The kinds of notice that the user gets."""

    kinds = MultipleChoiceField(label="Tell me when", required=False, widget=CheckboxSelectMultiple)

    def __init__(self, data: QueryDict | None, user: User) -> None:
        self.offered = OF_STAFF if user.is_staff else OF_A_DESK
        choice = NoticeChoice.objects.filter(user=user).first()
        off = choice.off if choice else []
        on = [kind.value for kind in self.offered if kind not in off]
        self.kept = [kind for kind in off if kind not in self.offered]  # of another release
        super().__init__(data, initial={"kinds": on})
        self.fields["kinds"].choices = [  # type: ignore[attr-defined]
            (kind.value, label) for kind, label in self.offered.items()
        ]

    def off(self) -> list[str]:
        """The kinds that the user turned off, also those that are not offered here."""
        off = [kind.value for kind in self.offered if kind not in self.cleaned_data["kinds"]]
        return [*self.kept, *off]


@user_page("GET", "POST")
def notices(request: HttpRequest, user: User) -> HttpResponse:
    """Shows and saves of which kinds the signed-in user gets notices."""
    form = NoticesForm(sent(request), user)
    if form.is_valid():
        NoticeChoice.objects.update_or_create(user=user, defaults={"off": form.off()})
        messages.success(request, "Your notices are saved.")
        return redirect("notices")
    context = {
        "chats": [(chat, outcome_of(chat)) for chat in Chat.objects.filter(user=user)],
        "most_chats": MAX_CHATS,
    }
    return form_page(request, "pages/notices.html", form, **context)


@user_page("POST", spends="changes")
def test_notice(request: HttpRequest, user: User) -> HttpResponse:
    """Queues a test for the mail address and each chat, also if it is off. One waits at most."""
    now = timezone.now()
    tests = QueuedNotice.objects.filter(user=user, kind=NoticeKind.TEST, channel=MAIL)
    if not tests.exists():
        body = "You asked for this test. Notices reach you."
        new_notice(user, NoticeKind.TEST, "A test notice", body, now).save()
    for chat in Chat.objects.filter(user=user):
        actions.request_test(chat=chat, now=now)
    messages.success(
        request,
        "The test is on its way. It should arrive within a minute. A chat that it does not reach "
        "is shown here as failing.",
    )
    return redirect("notices")


@page("GET", "POST")
@csrf_exempt
def stop(request: HttpRequest, token: str) -> HttpResponse:
    """Turns a kind of notice off (RFC 8058): a POST does it without a session, a GET asks."""
    found = read_stop_link(token)
    if found is None:
        return _say(request, "This link is not valid", "Sign in to choose your notices.", 404)
    user_id, kind = found
    label = CAN_BE_OFF[kind]
    if request.method == "POST":
        _turn_off(user_id, kind)
        return _say(request, "Turned off", f"You get no more notices of this kind: {label}.")
    return _say(request, "Turn these notices off?", f"{label}.", asks=True)


def _turn_off(user_id: int, kind: NoticeKind) -> None:
    if not User.objects.filter(pk=user_id, is_active=True).exists():
        return  # it gets none, and a closed account keeps no choices
    with transaction.atomic():
        choice, _ = NoticeChoice.objects.select_for_update().get_or_create(user_id=user_id)
        if kind not in choice.off:
            choice.off = [*choice.off, kind]
            choice.save(update_fields=["off"])


def _say(
    request: HttpRequest, question: str, sentence: str, status: int = 200, *, asks: bool = False
) -> HttpResponse:
    context = {"question": question, "sentence": sentence, "asks": asks}
    return render(request, "pages/notices_stopped.html", context, status=status)


class ChatForm(Form):
    """A new chat: its URL, and a name for the list."""

    url = CharField(
        label="Address",
        max_length=MAX_URL_LENGTH,
        help_text="It begins with https://. We encrypt it and never show it again.",
        widget=TextInput({"autocomplete": "off", "spellcheck": "false", "inputmode": "url"}),
        error_messages={"required": "Enter the address."},
    )
    name = NameField("So that you recognise it.", label="Name (optional)", required=False)


@user_page("GET", "POST", spends="destinations", recently=True)
def new_chat(request: HttpRequest, user: User) -> HttpResponse:
    """Adds a chat."""
    form = ChatForm(sent(request))
    if form.is_valid():
        with refusal_beside(form):
            chat = actions.add(user=user, now=timezone.now(), **form.cleaned_data)
            messages.success(request, f"{chat.label} is added. A first notice is on its way to it.")
            return redirect("notices")
    context = {"hosts": services.hosts()[Service.NTFY], "bot": services.bot_name()}
    return form_page(request, "chats/new.html", form, **context)


@user_page("POST", spends="destinations", recently=True)
def new_telegram(request: HttpRequest, user: User) -> HttpResponse:
    """Shows a link to the bot at Telegram with a new code, this once."""
    if not services.has_bot():
        raise NotFound("This service has no bot at Telegram.")
    link = services.bot_link(telegram.new_code(user=user, now=timezone.now()))
    return render(request, "chats/telegram.html", {"link": link, "bot": services.bot_name()})


@user_page("GET", "POST", spends="changes", recently=True)
def remove_chat(request: HttpRequest, user: User, chat_id: str) -> HttpResponse:
    """Asks for confirmation, then removes the chat."""
    chat = found_or_404(Chat.objects.filter(user=user, public_id=chat_id).first(), "chat")
    return ask(
        request,
        f"Remove {chat.label}?",
        "It is sent no more notices, and its address is deleted. Notices still come by mail.",
        act="Remove",
        perform=lambda: actions.remove(chat=chat, now=timezone.now()),
        done=f"{chat.label} is removed.",
        back=("Notices", reverse("notices")),
    )
