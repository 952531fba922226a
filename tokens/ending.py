"""What ends together with a desk, in an app to the left of this one.

``desk_ends`` is sent under the log's lock, in the turn that deactivates a desk or closes an
account, before the event that says so. Its arguments are the ``desk`` and the ``turn``. A receiver
ends what the desk owns and appends the events. It ends many things with the statements of one.
"""

from django.dispatch import Signal

from desks.models import Desk
from events.log import Turn

desk_ends = Signal()


def end_elsewhere(desk: Desk, turn: Turn) -> None:
    """Ends what other apps keep for the desk. Needs the caller's turn at the log."""
    desk_ends.send(Desk, desk=desk, turn=turn)
