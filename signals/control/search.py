"""What a search of the log finds: positions, by an index, or within a limit that the page states.

A search costs the same in a log of any size. An id finds by an index. A free text finds by the
index of nonces, or among the newest ``MAX_SCANNED`` rows.
"""

from collections.abc import Iterable

from django.db.models import Q
from django.db.models.fields.json import KT
from django.db.models.functions import Coalesce

from desks.models import Automation, User
from events.feed import MAX_POSITION, IndexRange, in_order
from events.kinds import Kind
from events.models import Event
from events.statements import UnionAll, fetch_all
from signals.intake.models import Signal
from signals.reports.activity import ACCEPTED
from tokens.models import Token

MAX_SCANNED = 10_000  # rows that are read to find a text in them
MAX_NAMED = 20  # users or tokens whose events a text finds
MAX_EVENTS = 500  # events of each of them


def newest_refusals() -> Q:
    """The newest ``MAX_SCANNED`` refusals, as a range of the index of kinds.

    With their positions as a query, PostgreSQL may read all refusals, and look for the newest among
    them.
    """
    refusals = Event.objects.filter(kind=Kind.SIGNAL_REFUSED).order_by("-position")
    positions = refusals.values_list("position", flat=True)
    oldest = positions[MAX_SCANNED - 1 : MAX_SCANNED].first()
    return Q(kind=Kind.SIGNAL_REFUSED, position__gte=oldest or 1)


def matching(text: str) -> Q:
    """The events that a free text finds.

    It is a nonce or a request id; or a part of an e-mail address or of a platform token's name,
    which finds the events of that desk, member of staff, or token.
    """
    positions = _of_nonce(text)
    if not positions:
        users = User.objects.matching(text)[:MAX_NAMED].values_list("desk__public_id", "staff_id")
        tokens = Token.objects.filter(desk=None, name__icontains=text)[:MAX_NAMED]
        actors = [*(staff_id for _, staff_id in users), *(token.public_id for token in tokens)]
        of_each = [
            *(Event.objects.filter(topic=topic).newest(MAX_EVENTS) for topic, _ in users if topic),
            *(Event.objects.filter(actor_id=each).newest(MAX_EVENTS) for each in actors if each),
        ]
        of_all = Event.objects.none().union(*of_each, all=True)
        positions = list(of_all.values_list("position", flat=True))
    return Q(position__in=positions)


def of(**value: str) -> Q:
    """The events with this value of a column that has an index with the position.

    By the value alone PostgreSQL reads the log backwards if the value is frequent, and passes all
    events since the last one that has it: those of the last weeks if a token was replaced then.
    """
    last, params = in_order("position", IndexRange(value, 1, MAX_POSITION), 1, "DESC")
    found = fetch_all(last, params)
    return Q(position__lte=found[0][0], **value) if found else Q(pk__in=[])


def key_of_bot(bot_id: str) -> dict[str, str]:
    """The columns of the events about a bot, which are on the topic of its desk."""
    topic = Automation.objects.filter(pk=bot_id).values_list("desk__public_id", flat=True).first()
    return {"topic": topic or "", "bot_id": bot_id}


def accepted(**value: str) -> Q:
    """The accepted signals among the newest ``MAX_SCANNED`` events with these columns.

    The columns have an index with the position.
    """
    newest = in_order("position, kind", IndexRange(value, 1, MAX_POSITION), MAX_SCANNED, "DESC")
    return Q(position__in=[position for position, kind in fetch_all(*newest) if kind in ACCEPTED])


def accepted_of_desk(user_id: str) -> Q:
    """The newest ``MAX_SCANNED`` accepted signals of a desk, however many refusals it has."""
    newest = UnionAll()
    for kind in ACCEPTED:
        branch = IndexRange({"topic": user_id, "kind": kind}, 1, MAX_POSITION)
        newest.add(*in_order("position", branch, MAX_SCANNED, "DESC"))
    found = fetch_all(f"{newest} ORDER BY position DESC LIMIT %s", [*newest.values, MAX_SCANNED])
    return Q(position__in=[position for (position,) in found])


def _of_nonce(text: str) -> list[int]:
    """The accepted signals with this nonce; recent refusals with it, or with this request ID."""
    accepted: Iterable[int] = Signal.objects.filter(nonce=text).values_list("position", flat=True)
    refused = (
        Event.objects.filter(newest_refusals())
        .annotate(
            nonce=Coalesce(KT("platform_content__data__nonce"), KT("content__data__nonce")),
            request=Coalesce(
                KT("platform_content__data__requestId"), KT("content__data__requestId")
            ),
        )
        .filter(Q(nonce=text) | Q(request=text))
    )
    return [*accepted, *refused.values_list("position", flat=True)]
