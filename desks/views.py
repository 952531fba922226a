"""Pages that change a customer's desk: connect, enrol, and the elections of bots."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from desks import actions
from desks.forms import ConnectionForm, ElectionForm, EnrolmentForm
from desks.models import Card, Desk, Election
from desks.pages import customer_page, form_page, own_bot, refusal_beside, sent


@customer_page("GET", "POST")
def connect(request: HttpRequest, desk: Desk) -> HttpResponse:
    """Connects the desk to a venue of the list."""
    form = ConnectionForm(sent(request))
    if form.is_valid():
        with refusal_beside(form):
            actions.connect(desk=desk, venue=form.cleaned_data["venue"])
            messages.success(request, "Your desk is connected.")
            return redirect("desk")
    return form_page(request, "desks/connect.html", form, desk=desk)


@customer_page("GET", "POST")
def disconnect(request: HttpRequest, desk: Desk) -> HttpResponse:
    """Says what disconnecting does, then does it."""
    if request.method == "POST":
        actions.disconnect(desk=desk)
        messages.success(request, "Your desk is disconnected. No election of it stands any more.")
        return redirect("desk")
    elections = Election.objects.standing().filter(desk=desk).select_related("card", "automation")
    return render(request, "desks/disconnect.html", {"desk": desk, "elections": elections})


@customer_page("GET", "POST")
def enrol(request: HttpRequest, desk: Desk) -> HttpResponse:
    """Elects the published card, if it is still the one that was shown."""
    form = EnrolmentForm(sent(request))
    if form.is_valid():
        with refusal_beside(form):
            actions.enrol(desk=desk, card_id=form.cleaned_data["card"])
            messages.success(request, "You are enrolled in the published card.")
            return redirect("desk")
    card = Card.objects.published().first()
    return form_page(request, "desks/enrol.html", form, desk=desk, card=card)


@customer_page("POST")
def withdraw(request: HttpRequest, desk: Desk) -> HttpResponse:
    """Withdraws the election on the published card."""
    actions.withdraw_from_card(desk=desk)
    messages.success(request, "Your election on the published card is withdrawn.")
    return redirect("desk")


@customer_page("GET", "POST")
def elect(request: HttpRequest, desk: Desk, bot_id: str) -> HttpResponse:
    """Elects a pair and a direction for a bot, instead of the one that stood."""
    bot = own_bot(desk, bot_id)
    form = ElectionForm(sent(request))
    if form.is_valid():
        with refusal_beside(form):
            actions.elect(automation=bot, **form.cleaned_data)
            messages.success(request, "The bot's election stands.")
            return redirect("bot", bot_id=bot.pk)
    election = Election.objects.standing().filter(automation=bot).first()
    return form_page(request, "desks/elect.html", form, desk=desk, bot=bot, election=election)


@customer_page("POST")
def withdraw_bot(request: HttpRequest, desk: Desk, bot_id: str) -> HttpResponse:
    """Withdraws a bot's election."""
    bot = own_bot(desk, bot_id)
    actions.withdraw_from_automation(automation=bot)
    messages.success(request, "The bot's election is withdrawn: its signals are refused.")
    return redirect("bot", bot_id=bot.pk)
