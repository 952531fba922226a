"""The page of a user's notices, and the pages behind a notice's unsubscribe link."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.forms import CheckboxSelectMultiple, Form, MultipleChoiceField
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt

from desks.models import Notice, NoticeChoice, User
from desks.models.notice_kinds import OF_A_DESK, OF_STAFF, NoticeKind
from desks.notices.outbox import turn_off
from events.http import limits
from events.http.pages import form_page, page, sent
from signals.notices import unsubscribing
from signals.notices.chats.models import MAX_CHATS, Chat
from signals.notices.texts import new_notice


class NoticesForm(Form):
    """The kinds of notice that the user wants."""

    wanted = MultipleChoiceField(
        label="Tell me when", required=False, widget=CheckboxSelectMultiple
    )

    def __init__(self, data: Any, user: User) -> None:
        self.kinds = OF_STAFF if user.is_staff else OF_A_DESK
        choice = NoticeChoice.objects.filter(user=user).first()
        off = choice.off if choice else []
        on = [kind.value for kind in self.kinds if kind not in off]
        super().__init__(data, initial={"wanted": on})
        self.fields["wanted"].choices = [  # type: ignore[attr-defined]
            (kind.value, told) for kind, told in self.kinds.items()
        ]

    def off(self) -> list[str]:
        """The kinds that the user does not want."""
        return [kind.value for kind in self.kinds if kind not in self.cleaned_data["wanted"]]


@page("GET", "POST")
@login_required
def notices(request: HttpRequest) -> HttpResponse:
    """Shows and saves which notices the signed-in user wants."""
    user: Any = request.user
    limits.consume("pages", str(user.pk))
    form = NoticesForm(sent(request), user)
    if form.is_valid():
        NoticeChoice.objects.update_or_create(user=user, defaults={"off": form.off()})
        messages.success(request, "Your notices are saved.")
        return redirect("notices")
    context = {
        "chats": Chat.objects.filter(user=user),
        "most_chats": MAX_CHATS,
    }
    return form_page(request, "pages/notices.html", form, **context)


@page("POST")
@login_required
def test_notice(request: HttpRequest) -> HttpResponse:
    """Queues a notice that says nothing but that notices arrive. One waits at most."""
    user: Any = request.user
    limits.consume("pages", str(user.pk))
    if not Notice.objects.unmailed().filter(user=user, kind=NoticeKind.TEST).exists():
        body = "You asked for this test. Notices reach you."
        new_notice(user, NoticeKind.TEST, "A test notice", body, timezone.now()).save()
    messages.success(request, "The test is on its way.")
    return redirect("notices")


@page("GET", "POST")
@csrf_exempt
def stop(request: HttpRequest, token: str) -> HttpResponse:
    """Turns a kind of notice off (RFC 8058): a POST does it without a session, a GET asks."""
    found = unsubscribing.read(token)
    if found is None:
        return _say(request, "This link is not valid", "Sign in to choose your notices.", 404)
    user_id, kind = found
    told = unsubscribing.CAN_BE_OFF[kind]
    if request.method == "POST":
        turn_off(user_id, kind)
        return _say(request, "Turned off", f"You get no more notices of this kind: {told}.")
    return _say(request, "Turn these notices off?", f"{told}.", asks=True)


def _say(
    request: HttpRequest, question: str, sentence: str, status: int = 200, *, asks: bool = False
) -> HttpResponse:
    context = {"question": question, "sentence": sentence, "asks": asks}
    return render(request, "pages/notices_stopped.html", context, status=status)
