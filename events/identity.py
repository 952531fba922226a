"""What tells an event from one that another history of the log has at its position."""

from datetime import datetime
from typing import NamedTuple


class Identity(NamedTuple):
    """Columns of an event. The first event that two histories do not share differs in its time.

    ``kind`` is one of ``events.kinds.Kind``. The names are those of the columns.
    """

    position: int
    at: datetime
    kind: str
    actor_id: str | None
    topic: str | None
    signal_id: str | None
