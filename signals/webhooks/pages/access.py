"""What the pages of webhooks share: whose webhook it is, and the recent sign-in of a change."""

import functools
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode

from desks.models import Desk
from events.http.pages import View
from events.http.refusals import NotFound
from signals.web.access import Spends, customer_page
from signals.webhooks.models import Subscription
from tokens.callers.staff import signed_in_recently


def changing_page(*methods: str, spends: Spends = "changes") -> Callable[[View], View]:
    """Declares a page that changes webhooks: it needs a sign-in of the last 15 minutes.

    Without one it leads to the page that asks for it, and back: of a form to the form, of a button
    to the webhook (contract, section 4, subscriptions).
    """

    def decorate(view: View) -> View:
        @customer_page(*methods, spends=spends)
        @functools.wraps(view)
        def checked(
            request: HttpRequest, desk: Desk, *args: object, **kwargs: str
        ) -> HttpResponseBase:
            if not signed_in_recently(request):
                return _prove(request, kwargs.get("webhook_id"), has_form="GET" in methods)
            return view(request, desk, *args, **kwargs)

        return checked

    return decorate


def own_webhook(desk: Desk, webhook_id: str) -> Subscription:
    """The desk's webhook. Raises ``NotFound`` if the desk has no such one."""
    owned = Subscription.objects.of_owner(desk.pk).select_related("desk")
    found = owned.filter(public_id=webhook_id).first()
    if found is None:
        raise NotFound("The webhook does not exist, or you have no access to it.")
    return found


def _prove(request: HttpRequest, webhook_id: str | None, *, has_form: bool) -> HttpResponse:
    back = request.path if has_form else reverse("webhook", args=[webhook_id])
    return redirect(f"{reverse('account_reauthenticate')}?{urlencode({'next': back})}")
