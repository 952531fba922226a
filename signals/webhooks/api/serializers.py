"""The bodies with which subscriptions are made and changed."""

from datetime import timedelta
from typing import Any

from rest_framework import serializers

from events.http.parameters import MAX_TEXT_LENGTH, StrictSerializer, StrictTextField
from events.kinds import Kind
from signals.outbound.addresses import MAX_URL_LENGTH
from tokens.actions import MAX_OVERLAP


class StrictBooleanField(serializers.BooleanField):
    """JSON's true or false. The framework also accepts numbers and words."""

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid", input="…")
        return data


class SecondsField(serializers.Field[timedelta, Any, Any, Any]):
    """A whole number of seconds, as a JSON number."""

    default_error_messages = {"invalid": "Send a whole number of seconds."}

    def to_internal_value(self, data: Any) -> timedelta:
        if isinstance(data, bool) or not isinstance(data, int):
            self.fail("invalid")
        return timedelta(seconds=min(max(data, -1), 2 * MAX_OVERLAP.total_seconds()))


def _kinds() -> serializers.ListField:
    """Kinds of events; None for all of them, those of later versions included."""
    kind = serializers.ChoiceField(Kind.choices)
    return serializers.ListField(
        child=kind, required=False, allow_null=True, allow_empty=False, max_length=len(Kind)
    )


def in_order(kinds: list[str] | None) -> list[str]:
    """The kinds as they are stored: each once, in the order of the contract. Empty for all."""
    return [kind.value for kind in Kind if kind in (kinds or ())]


class Creating(StrictSerializer):
    """A new subscription."""

    url = StrictTextField(max_length=MAX_URL_LENGTH, trim_whitespace=False)
    kinds = _kinds()


class Changing(StrictSerializer):
    """A change of a subscription: any of these."""

    url = StrictTextField(max_length=MAX_URL_LENGTH, trim_whitespace=False, required=False)
    kinds = _kinds()
    paused = StrictBooleanField(required=False)

    def validate(self, data: dict[str, Any]) -> dict[str, Any]:
        if not data:
            raise serializers.ValidationError({"url": "Send url, kinds or paused."})
        return data


class Replacing(StrictSerializer):
    """How long the replaced secret still signs, in seconds."""

    overlap = SecondsField(default=timedelta(0))


class Rewinding(StrictSerializer):
    """The cursor of the feed after which deliveries continue."""

    after = StrictTextField(max_length=MAX_TEXT_LENGTH)


class Nothing(StrictSerializer):
    """A body without members."""
