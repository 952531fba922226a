"""The feed's parameters, and an event as readers see it."""

from typing import Any

from rest_framework import serializers

from events.api.parameters import LONGEST_TEXT, PageParameters, WholeNumber
from events.kinds import Kind
from events.models import Event
from events.times import written

LONGEST_WAIT = 25


class FeedParameters(PageParameters):
    """What the feed takes (contract, section 4, events)."""

    kind = serializers.ListField(
        child=serializers.ChoiceField(Kind.choices),
        required=False,
        default=list,
        help_text="Only events of this kind; may be given several times.",
    )
    userId = serializers.CharField(
        max_length=LONGEST_TEXT,
        required=False,
        help_text="That desk's view, with the fan-outs that filled it.",
    )
    signal = serializers.CharField(
        max_length=LONGEST_TEXT, required=False, help_text="Only the event of this signal."
    )
    order = serializers.ChoiceField(
        ["asc", "desc"], default="asc", help_text="asc: the oldest first."
    )
    wait = WholeNumber(
        min_value=0,
        max_value=LONGEST_WAIT,
        default=0,
        help_text="Seconds to hold an empty answer until something comes; with asc only.",
    )

    def validate(self, given: dict[str, Any]) -> dict[str, Any]:
        if given["order"] == "desc" and given["wait"]:
            raise serializers.ValidationError({"wait": "Only the order asc can wait."})
        return given


def event_as_json(event: Event, *, platform: bool) -> dict[str, Any]:
    """The event's record for one kind of reader."""
    content = event.seen_by(platform=platform)
    return {
        "id": event.id,
        "position": event.position,
        "kind": event.kind,
        "at": written(event.at),
        "userId": event.user_id,
        "signal": content["signal"],
        "data": content["data"],
    }
