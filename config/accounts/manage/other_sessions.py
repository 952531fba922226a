"""The list of sessions, and signing out all but this one."""

from allauth.core.internal.httpkit import authenticated_user
from allauth.usersessions.internal.flows.sessions import end_other_sessions
from allauth.usersessions.models import UserSession
from allauth.usersessions.views import ListUserSessionsView
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from events.http.pages import ask, page

MAX_SHOWN_LENGTH = 90  # characters of a browser's own name


class ListSessions(ListUserSessionsView):
    """allauth's list. Ending the other sessions has a page of its own, which asks first."""

    def post(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        return redirect("end_other_sessions")


@page("GET", "POST")
@login_required
def end_others(request: HttpRequest) -> HttpResponse:
    """Asks for confirmation, then signs out every session of the user but this one."""
    user = authenticated_user(request)
    sessions = UserSession.objects.purge_and_list(user)
    others = [session for session in sessions if not session.is_current()]
    if not others:
        return redirect("usersessions_list")
    if request.method == "POST":
        end_other_sessions(request, user)
        messages.success(request, "All other sessions are signed out.")
        return redirect("usersessions_list")
    return ask(
        request,
        "Sign out the other sessions?",
        *(f"{_name(session)} is signed out." for session in others),
        "You stay signed in here.",
        act="Sign out the others",
        back=("Sessions", reverse("usersessions_list")),
    )


def _name(session: UserSession) -> str:
    return f"{session.user_agent[:MAX_SHOWN_LENGTH] or 'A browser'} at {session.ip}"
