"""The control area's read-only pages of the log: every event, and the refusals among them."""

import json
from functools import partial
from operator import methodcaller
from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import Q
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.utils.html import format_html
from django.utils.safestring import SafeString

from events.control.lists import EMPTY_VALUE, ChoiceFilter, IndexedChangeList, PageLink, Rows
from events.control.pages import ReadOnlyAdmin
from events.json_schema import JsonObject
from events.kinds import LABELS, PLATFORM, SUPPRESSED, Kind, label_of
from events.models import Event
from signals.control import search
from signals.control.stories import attach_names, name_of, show_event
from signals.law.refusals import EXPLANATIONS
from signals.reports.reasons import title_of
from tokens.choices import Source


def _filter_refusals(member: str, value: str, rows: Rows) -> Rows:
    """The newest refusals whose data has this value.

    The column ``code`` would be the same as the member. But with it PostgreSQL may read the index
    of all codes, which grows with the log, instead of the newest refusals.
    """
    return rows.filter(search.newest_refusals(), **{f"content__data__{member}": value})


def is_of_refusals(request: HttpRequest) -> bool:
    """Whether the list shows refusals alone."""
    return request.GET.get("kind") == Kind.SIGNAL_REFUSED


class KindFilter(ChoiceFilter, name="kind"):
    filters = {str(kind): methodcaller("filter", kind=kind) for kind in Kind}
    labels = LABELS

    @property
    def is_hidden(self) -> bool:
        return is_of_refusals(self.request)


class RefusalFilter(ChoiceFilter):
    """A filter of refusals alone."""

    @property
    def is_hidden(self) -> bool:
        return not is_of_refusals(self.request)


class ReasonFilter(RefusalFilter, name="reason"):
    """The reason of a refusal: one of the codes that the law gives, or a nonce that was used."""

    filters = {
        code: partial(_filter_refusals, "code", code)
        for code in sorted([*EXPLANATIONS, SUPPRESSED], key=title_of)
    }
    labels = {code: title_of(code) for code in filters}


class SourceFilter(RefusalFilter, name="source"):
    filters = {source: partial(_filter_refusals, "source", source) for source in Source.values()}


class NamingChangeList(IndexedChangeList):
    """A list whose events know the names of what their ids stand for."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        self.result_list = list(self.result_list)
        attach_names(self.result_list)


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin):
    """The log, newest event first."""

    change_list_template = "control/log.html"
    list_display = ["at", "label", "bot", "owner", "actor_name"]
    list_display_links = ["label"]
    list_filter = [KindFilter, ReasonFilter, SourceFilter]
    ordering = ["-position"]
    search_placeholder = "address, id or nonce"
    search_help_text = (
        "By index: evt_… (this event and earlier ones), sig_…, usr_…, card_… or all; bot_…; tok_…, "
        "sec_… or stf_… (what it did); a nonce. Among the newest: a request ID or nonce of a "
        f"refusal ({search.MAX_SCANNED:,} refusals); a part of an email address or of a platform "
        f"token's name ({search.MAX_EVENTS} events of each of {search.MAX_NAMED}). The filters by "
        f"reason and source: of the newest {search.MAX_SCANNED:,} refusals."
    )
    searches_by_prefix = {
        "evt_": lambda text: _up_to_position(text.removeprefix("evt_")),
        "sig_": lambda text: Q(signal_id=text),
        "usr_": lambda text: search.of(topic=text),
        "card_": lambda text: search.of(topic=text),
        "tok_": lambda text: search.of(actor_id=text),
        "sec_": lambda text: search.of(actor_id=text),
        "stf_": lambda text: search.of(actor_id=text),
        "bot_": lambda text: search.of(**search.key_of_bot(text)),
        "": lambda text: search.of(topic=text) if text == "all" else search.matching(text),
    }
    fields = ["story", "id", "kind", "at", "topic", "platform_view", "customer_view"]

    def get_changelist(self, request: HttpRequest, **kwargs: object) -> type[ChangeList]:
        return NamingChangeList

    def list_title(self, request: HttpRequest) -> str:
        return "Refusals" if is_of_refusals(request) else super().list_title(request)

    def get_list_display(self, request: HttpRequest) -> Any:
        of_refusals = ["at", "label", "sender", "owner"]
        names = of_refusals if is_of_refusals(request) else self.list_display
        return [self._column(name) for name in names]

    @admin.display(description="what")
    def label(self, event: Event) -> str:
        """What happened, and of a refusal why."""
        is_refusal = event.kind == Kind.SIGNAL_REFUSED
        return title_of(event.code) if is_refusal else label_of(event.kind)

    @admin.display
    def bot(self, event: Event) -> str:
        return _link(name_of(event, event.bot_id))

    @admin.display
    def sender(self, event: Event) -> str:
        """The bot of a refused signal, or the credential that sent it."""
        return self.bot(event) if event.bot_id else self.actor_name(event)

    @admin.display
    def owner(self, event: Event) -> str:
        return _link(name_of(event, event.user_id))

    @admin.display(description="actor")
    def actor_name(self, event: Event) -> str:
        if event.actor is None:
            return "unauthenticated"
        return _link(name_of(event, event.actor_id), event.actor_id or str(event.actor.type))

    @admin.display(description="what happened")
    def story(self, event: Event) -> SafeString:
        return show_event(event)

    @admin.display(description="content")
    def platform_view(self, event: Event) -> SafeString:
        return _folded_json(event.content_for(platform=True))

    @admin.display(description="what users see")
    def customer_view(self, event: Event) -> SafeString | str:
        if event.topic is PLATFORM:
            return "Nothing. Only the platform sees this event."
        if event.platform_content is None:
            return "The same content."
        return _folded_json(event.content_for(platform=False))


def _link(named: PageLink | None, otherwise: str = EMPTY_VALUE) -> str:
    return format_html('<a href="{1}">{0}</a>', *named) if named else otherwise


def _up_to_position(digits: str) -> Q:
    """The event with this position and all earlier ones: the list shows the newest first."""
    return Q(position__lte=int(digits)) if digits.isdecimal() else Q(pk__in=[])


def _folded_json(content: JsonObject) -> SafeString:
    text = json.dumps(content, indent=2, ensure_ascii=False)
    return render_to_string("control/folded.html", {"summary": "As JSON", "text": text})
