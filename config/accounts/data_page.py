"""The page of a customer's own data: export, and closing the account."""

from django.contrib import messages
from django.contrib.auth import logout
from django.contrib.auth.views import redirect_to_login
from django.forms import BooleanField, Form
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render

from desks.models import Automation, Desk, Election
from desks.models.chat import Chat
from events.http import rate_limits
from events.http.web_pages import form_page, sent
from events.kinds import Kind
from events.models import Event
from signals.page_access import customer_page
from signals.site.downloads import download
from signals.site.own_data import export
from signals.webhooks.models import Subscription
from tokens.account_closing import close_account
from tokens.callers.staff import signed_in_recently
from tokens.models import SigningSecret, Token

CLOSING_TIME = 30  # seconds, more than a request may take
NOT_CLOSED = "Your account was not closed: it was deactivated a moment ago."


class CloseForm(Form):
    """The confirmation that what the page lists ends for good."""

    understood = BooleanField(
        label="Close my account for good",
        error_messages={"required": "Confirm that your account is closed for good."},
    )


@customer_page("GET", "POST", spends="pages")
def own_data(request: HttpRequest, desk: Desk) -> HttpResponseBase:
    """Offers the export and the closing. A POST downloads the export, as a ZIP file."""
    if request.method != "POST":
        return render(request, "account/data.html")
    if not signed_in_recently(request):
        return redirect_to_login(request.path, "account_reauthenticate")
    filename = f"{desk.public_id}.zip"
    return download(request, desk, export(desk), filename=filename, content_type="application/zip")


@customer_page("GET", "POST", spends=None, recently=True)
def close(request: HttpRequest, desk: Desk) -> HttpResponse:
    """Says what ends and what stays, asks for a confirmation, then closes the account."""
    form = CloseForm(sent(request))
    if form.is_valid():
        with rate_limits.one_at_a_time("closing", str(desk.pk), CLOSING_TIME):
            is_closed = close_account(desk)
        logout(request)
        if is_closed:
            messages.success(request, "Your account is closed.")
        else:
            messages.error(request, NOT_CLOSED)
        return redirect("home")
    context = {
        "consequences": _consequences(desk),
        "names_hosts": _log_names_hosts(desk),
        "act": "Close my account",
    }
    return form_page(request, "account/close.html", form, **context)


def _log_names_hosts(desk: Desk) -> bool:
    """Whether the log names hosts of the desk's webhooks, as events of earlier releases do."""
    added = Event.objects.filter(topic=desk.public_id, kind=Kind.SUBSCRIPTION_CREATED)
    return added.filter(content__data__has_key="host").exists()


def _consequences(desk: Desk) -> list[str]:
    """What ends, with numbers."""
    elections = Election.objects.standing().filter(desk=desk).count()
    bots = Automation.objects.not_removed().filter(desk=desk).count()
    token = Token.objects.filter(desk=desk, revoked_at=None).first()
    secrets = SigningSecret.objects.of_present_bots(desk).filter(ends_at=None).count()
    webhooks = Subscription.objects.of_owner(desk.pk).count()
    chats = Chat.objects.filter(user=desk.user_id).count()
    return [
        f"{_counted(elections, 'election')} withdrawn, and the desk is disconnected.",
        f"{_counted(bots, 'bot')} removed, with {secrets} signing secret{'s' * (secrets != 1)}.",
        *([f"The desk token {token.hint} is revoked."] if token else []),
        *([f"{_counted(webhooks, 'webhook')} removed."] if webhooks else []),
        *([f"{_counted(chats, 'chat')} removed from your notices."] if chats else []),
        "Your address, your password, your second factors and your sessions are deleted.",
        "This cannot be undone. You can sign up again with your address, and get a new desk.",
    ]


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun} is" if number == 1 else f"{number} {noun}s are"
