"""The log, for staff to read."""

import json
from functools import partial
from typing import Any

from django.contrib import admin
from django.db.models import Q
from django.utils.html import format_html
from django.utils.safestring import SafeString

from events.control.lists import Narrowing, Rows
from events.control.pages import ReadOnly
from events.kinds import PLATFORM, Kind
from events.models import Event


def _of_kind(kind: Kind, rows: Rows) -> Rows:
    return rows.filter(kind=kind)


class KindFilter(Narrowing):
    title = "kind"
    parameter_name = "kind"
    ways = {str(kind): partial(_of_kind, kind) for kind in Kind}


@admin.register(Event)
class EventControl(ReadOnly):
    """The log, the newest event first."""

    list_display = ["id", "kind", "at", "topic", "signal_id"]
    list_filter = [KindFilter]
    ordering = ["-position"]
    search_help_text = (
        "evt_… and what came before it · usr_… or card_… to which it is addressed, or all · sig_…"
    )
    searches = {
        "evt_": lambda text: _up_to(text.removeprefix("evt_")),
        "sig_": lambda text: Q(signal_id=text),
        "": lambda text: Q(topic=text),
    }
    fields = ["id", "kind", "at", "topic", "signal_id", "whole", "for_customers"]

    @admin.display(description="content")
    def whole(self, event: Event) -> SafeString:
        return _pretty(event.seen_by(platform=True))

    @admin.display(description="what customers see")
    def for_customers(self, event: Event) -> SafeString | str:
        if event.topic is PLATFORM:
            return "Nothing: it is for the platform only."
        return _pretty(event.seen_by(platform=False)) if event.platform_content else "The same."


def _up_to(digits: str) -> Q:
    """The events up to a position, which is where a list with the newest first begins."""
    return Q(position__lte=int(digits)) if digits.isdecimal() else Q(pk__in=[])


def _pretty(content: dict[str, Any]) -> SafeString:
    text = json.dumps(content, indent=2, ensure_ascii=False)
    return format_html('<pre class="content">{}</pre>', text)
