"""The control area's read-only pages of the log."""

import json
from operator import methodcaller
from typing import Any

from django.contrib import admin
from django.db.models import Q
from django.utils.html import format_html
from django.utils.safestring import SafeString

from events.control.lists import ChoiceFilter
from events.control.pages import ReadOnlyAdmin
from events.kinds import PLATFORM, Kind
from events.models import Event


class KindFilter(ChoiceFilter, name="kind"):
    filters = {str(kind): methodcaller("filter", kind=kind) for kind in Kind}


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin):
    """The log, newest event first."""

    list_display = ["id", "kind", "at", "actor_name", "topic", "signal_id"]
    list_filter = [KindFilter]
    ordering = ["-position"]
    search_help_text = (
        "evt_… (this event and earlier ones) · topic: usr_…, card_… or all · signal: sig_…"
    )
    searches_by_prefix = {
        "evt_": lambda text: _up_to_position(text.removeprefix("evt_")),
        "sig_": lambda text: Q(signal_id=text),
        "": lambda text: Q(topic=text),
    }
    fields = [*list_display, "platform_view", "customer_view"]

    @admin.display(description="actor")
    def actor_name(self, event: Event) -> str:
        if event.actor is None:
            return "unauthenticated"
        return event.actor.id or str(event.actor.type)

    @admin.display(description="content")
    def platform_view(self, event: Event) -> SafeString:
        return _pretty_json(event.content_for(platform=True))

    @admin.display(description="what customers see")
    def customer_view(self, event: Event) -> SafeString | str:
        if event.topic is PLATFORM:
            return "Nothing. Only the platform sees this event."
        return (
            _pretty_json(event.content_for(platform=False))
            if event.platform_content
            else "The same content."
        )


def _up_to_position(digits: str) -> Q:
    """The event with this position and all earlier ones: the list shows the newest first."""
    return Q(position__lte=int(digits)) if digits.isdecimal() else Q(pk__in=[])


def _pretty_json(content: dict[str, Any]) -> SafeString:
    text = json.dumps(content, indent=2, ensure_ascii=False)
    return format_html('<pre class="content">{}</pre>', text)
