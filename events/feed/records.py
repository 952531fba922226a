"""An event as the API shows it."""

from typing import Any

from events.models import Event
from events.times import to_rfc3339


def serialize_event(event: Event, *, platform: bool) -> dict[str, Any]:
    """The event as JSON. The platform sees more of some events than a desk does."""
    content = event.content_for(platform=platform)
    actor = event.actor_for(platform=platform)
    return {
        "id": event.id,
        "position": event.position,
        "kind": event.kind,
        "at": to_rfc3339(event.at),
        "actor": actor and actor.to_dict(),
        "userId": event.user_id,
        "signal": content["signal"],
        "data": content["data"],
    }
