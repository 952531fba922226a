"""The parameters of the feed, and an event as JSON."""

from typing import Any

from rest_framework import serializers

from events.http.parameters import (
    MAX_TEXT_LENGTH,
    PageParameters,
    Rfc3339Field,
    StrictIntegerField,
    StrictSerializer,
)
from events.kinds import Kind

MAX_WAIT = 25  # seconds


class FilterParameters(StrictSerializer):
    """The filters of the feed, of pages and of streams."""

    kind = serializers.ListField(
        child=serializers.ChoiceField(Kind.choices),
        required=False,
        default=list,
        help_text="Only events of this kind. Can be repeated.",
    )
    userId = serializers.CharField(
        max_length=MAX_TEXT_LENGTH,
        required=False,
        help_text="Only what this desk sees, including the fan-outs that filled it.",
    )
    signal = serializers.CharField(
        max_length=MAX_TEXT_LENGTH, required=False, help_text="Only the event of this signal."
    )
    botId = serializers.CharField(
        max_length=MAX_TEXT_LENGTH,
        required=False,
        help_text="Only the events of this bot: its signals, refusals, elections and secrets.",
    )


class FeedParameters(FilterParameters, PageParameters):
    """The query parameters of the feed (contract, section 4, events)."""

    since = Rfc3339Field(
        required=False, help_text="Only events at this time or later. A time of RFC 3339."
    )
    until = Rfc3339Field(
        required=False, help_text="Only events before this time. A time of RFC 3339."
    )
    order = serializers.ChoiceField(
        ["asc", "desc"], default="asc", help_text="asc: oldest first. desc: newest first."
    )
    wait = StrictIntegerField(
        min_value=0,
        max_value=MAX_WAIT,
        default=0,
        help_text="Seconds to wait for an event if there is none yet. Only with order=asc.",
    )

    def validate(self, data: dict[str, Any]) -> dict[str, Any]:
        if data["order"] == "desc" and data["wait"]:
            raise serializers.ValidationError({"wait": "Use wait with order=asc only."})
        if "since" in data and "until" in data and data["until"] <= data["since"]:
            raise serializers.ValidationError({"until": "Send a time after since."})
        return data


class StreamParameters(FilterParameters):
    """The query parameters of a stream (contract, section 4, streams)."""

    after = serializers.CharField(max_length=MAX_TEXT_LENGTH, required=False)
