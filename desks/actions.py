"""Actions that open an account, change a desk, and publish and retire cards.

Each action is one turn at the log. Under the lock it rereads the state, changes the rows and writes
the event, all in one transaction. An action that is called inside another turn joins that turn.

Withdrawals have no rate limit. So a withdrawal first checks without the lock whether there is
anything to withdraw, and takes no turn if there is not. It checks again under the lock.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest

from allauth.account.models import EmailAddress
from django.db import IntegrityError
from django.db.models import F

from desks.event_data import WithdrawalReason
from desks.models import Automation, Card, Connection, Desk, Election, User
from desks.models.automation import MAX_BOTS, NOT_EXPECTED
from events import log
from events.actors import Actor
from events.http.name_rules import require_name
from events.http.refusals import Invalid, NotAllowed
from events.kinds import EVERYONE, Kind
from events.log import Turn

DEACTIVATED = "This account was deactivated."
NOT_PUBLISHED = "This card is no longer published. Review the current card."

# --- An account -----------------------------------------------------------------------------------


def is_taken(address: str) -> bool:
    """Whether an account uses this address or has verified it.

    Always runs two queries, so that the time does not reveal which.
    """
    owners = User.objects.filter(email=address).exists()
    verified = EmailAddress.objects.filter(email=address, verified=True).exists()
    return owners or verified


def open_account(*, address: str, password: str) -> User | None:
    """Creates a user with a desk; returns None if the address is taken.

    ``address`` is normalized. ``password`` is a hash, because hashing is too slow to do under the
    log's lock. A unique constraint decides between concurrent requests for the same address.
    """
    user = User(email=address, password=password)
    desk = Desk(user=user)
    try:
        with log.turn(actor=desk.actor):
            user.save(force_insert=True)
            EmailAddress.objects.create(user=user, email=address, verified=True, primary=True)
            open_desk(desk=desk, actor=desk.actor)
    except IntegrityError:
        if is_taken(address):
            return None
        raise
    return user


# --- A desk ---------------------------------------------------------------------------------------


def open_desk(*, desk: Desk, actor: Actor) -> Desk | None:
    """Saves a new desk and returns it. Returns the existing desk if the user already has one.

    Returns None for staff, who have no desk (contract, section 1). ``desk`` is an unsaved instance,
    so that its owner can be the ``actor``.
    """
    if desk.user.is_staff:
        return None
    with log.turn(actor=actor) as turn:
        opened = Desk.objects.filter(user=desk.user).first()
        if opened is not None:
            return opened
        desk.created_at = desk.updated_at = turn.at
        desk.changed = turn.position
        desk.save(force_insert=True)
        turn.append(Kind.DESK_CREATED, topic=desk.public_id, data={"venue": None})
    return desk


def connect(*, desk: Desk, venue: str, actor: Actor) -> None:
    """Connects the desk to a venue. The caller checks that the owner confirmed trade-only access.

    Raises ``Invalid`` if the desk is already connected.
    """
    require_name(venue, field="venue")
    with log.turn(actor=actor) as turn:
        refuse_inactive(desk)
        _, created = Connection.objects.get_or_create(
            desk=desk, defaults={"venue": venue, "connected_at": turn.at}
        )
        if not created:
            raise Invalid("This desk is already connected. Disconnect it first.")
        update_desk(turn, desk, connected=True)
        turn.append(Kind.DESK_CONNECTED, topic=desk.public_id, data={"venue": venue})


def disconnect(
    *, desk: Desk, actor: Actor, reason: WithdrawalReason = WithdrawalReason.DISCONNECTED
) -> None:
    """Disconnects the desk and withdraws all of its elections."""
    connections = Connection.objects.filter(desk=desk)
    if not connections.exists():
        return
    with log.turn(actor=actor) as turn:
        connection = connections.first()
        if connection is None:
            return
        standing = Election.objects.standing().filter(desk=desk).select_related("card")
        close_elections(turn, desk, standing, reason)
        connection.delete()
        update_desk(turn, desk, connected=False, enrolled=None)
        turn.append(Kind.DESK_DISCONNECTED, topic=desk.public_id, data={"venue": connection.venue})


def set_deactivated(*, desk: Desk, kind: Kind, actor: Actor) -> None:
    """Removes the desk from lists, or lists it again if the event's kind is ``desk.reactivated``.

    Then it is still disconnected and has no elections.
    """
    deactivated = kind != Kind.DESK_REACTIVATED
    with log.turn(actor=actor) as turn:
        if Desk.objects.filter(pk=desk.pk, deactivated=deactivated).exists():
            return
        update_desk(turn, desk, deactivated=deactivated)
        turn.append(kind, topic=desk.public_id, data={"venue": None})


def enrol(*, desk: Desk, card_id: str, actor: Actor) -> None:
    """Enrols the desk in the published card.

    Raises ``Invalid`` if ``card_id`` is not the published card or the desk is not connected.
    """
    with log.turn(actor=actor) as turn:
        refuse_inactive(desk)
        require_connection(desk)
        card = Card.objects.published().filter(pk=card_id).first()
        if card is None:
            raise Invalid(NOT_PUBLISHED)
        if Election.objects.standing().filter(desk=desk, card=card).exists():
            return
        open_election(turn, desk, card.pair, card.direction, card=card)
        Card.objects.filter(pk=card.pk).update(standing=F("standing") + 1)


def withdraw(*, desk: Desk, actor: Actor, automation: Automation | None = None) -> None:
    """Withdraws the election of a bot, or the desk's on the published card, if there is one."""
    elections = Election.objects.standing().filter(desk=desk, automation=automation)
    if elections.exists():
        with log.turn(actor=actor) as turn:
            close_elections(turn, desk, elections.select_related("card"), WithdrawalReason.ASKED)


def add_automation(*, desk: Desk, name: str, actor: Actor) -> Automation:
    """Adds a bot to the desk. Raises ``Invalid`` if it already has ``MAX_BOTS``."""
    require_name(name)
    with log.turn(actor=actor) as turn:
        refuse_inactive(desk)
        if Automation.objects.not_removed().filter(desk=desk).count() >= MAX_BOTS:
            raise Invalid(f"A desk has at most {MAX_BOTS} bots. Remove one first.")
        automation = Automation.objects.create(desk=desk, name=name, created_at=turn.at)
        data = automation.as_event_data()
        turn.append(Kind.AUTOMATION_CREATED, topic=desk.public_id, data=data)
    return automation


def elect(*, automation: Automation, pair: str, direction: str, actor: Actor) -> None:
    """Elects a pair and a direction for a bot, and withdraws its previous election as replaced.

    Raises ``Invalid`` if the desk is not connected or the bot was removed.
    """
    with log.turn(actor=actor) as turn:
        desk = automation.desk
        refuse_inactive(desk)
        require_connection(desk)
        refuse_removed(automation)
        standing = Election.objects.standing().filter(automation=automation).first()
        if standing is not None:
            if (standing.pair, standing.direction) == (pair, direction):
                return
            close_elections(turn, desk, [standing], WithdrawalReason.REPLACED)
        open_election(turn, desk, pair, direction, automation=automation)


def publish_card(
    *, name: str, pair: str, direction: str, actor: Actor, retires: str | None = None
) -> Card:
    """Publishes a new card and retires the previous one. The elections on that one lapse.

    ``retires`` is the id of the card that the caller agreed to retire, empty for none. Raises
    ``Invalid`` if it is given and another card is published by now, or none.
    """
    require_name(name)
    with log.turn(actor=actor) as turn:
        published = Card.objects.published().first()
        if retires not in (None, published.pk if published else ""):
            raise Invalid("The published card has changed. Check again what is retired.")
        retire_card(actor=actor)
        card = Card.objects.create(
            name=name,
            pair=pair,
            direction=direction,
            opened=turn.position,
            published_at=turn.at,
        )
        turn.append(Kind.CARD_PUBLISHED, topic=EVERYONE, data=card.as_event_data())
    return card


def retire_card(*, actor: Actor, card: Card | None = None) -> None:
    """Retires the published card. Closing the card's row ends every election on it.

    Raises ``Invalid`` if ``card`` is given and is not the published card.
    """
    with log.turn(actor=actor) as turn:
        published = Card.objects.published().first()
        if card is not None and card != published:
            raise Invalid("This card was already retired.")
        if published is None:
            return
        ended = {"closed": turn.position, "retired_at": turn.at}
        Card.objects.filter(pk=published.pk).update(**ended)
        turn.append(Kind.CARD_RETIRED, topic=EVERYONE, data=published.as_event_data())


# --- What the actions share: row changes and checks in the turn of the caller ---------------------


def open_election(
    turn: Turn,
    desk: Desk,
    pair: str,
    direction: str,
    *,
    card: Card | None = None,
    automation: Automation | None = None,
) -> None:
    """Opens an election on a card or for a bot."""
    election = Election.objects.create(
        desk=desk,
        card=card,
        automation=automation,
        pair=pair,
        direction=direction,
        opened=turn.position,
        elected_at=turn.at,
    )
    update_desk(turn, desk, **({"enrolled": card} if card else {}))
    turn.append(Kind.ELECTION_MADE, topic=desk.public_id, data=election.as_event_data())


def close_elections(
    turn: Turn, desk: Desk, elections: Iterable[Election], reason: WithdrawalReason
) -> None:
    """Withdraws elections of a desk: one statement for each table, however many they are."""
    closed = list(elections)
    for election in closed:
        _append_withdrawal(turn, desk, election, reason)
    _save_closed(turn, desk, closed)


def remove_bots(
    turn: Turn,
    desk: Desk,
    bots: Sequence[Automation],
    reason: WithdrawalReason,
    *,
    end_secrets: Callable[[Automation], None],
) -> None:
    """Removes bots of a desk and withdraws their elections: one statement for each table.

    ``end_secrets`` appends the events of a bot's secrets, which come before the bot's own.
    """
    standing = Election.objects.standing().filter(automation__in=bots)
    elections = {election.automation_id: election for election in standing}
    for bot in bots:
        end_secrets(bot)
        if election := elections.get(bot.pk):
            _append_withdrawal(turn, desk, election, reason)
        turn.append(Kind.AUTOMATION_REMOVED, topic=desk.public_id, data=bot.as_event_data())
    _save_closed(turn, desk, list(elections.values()))
    rows = Automation.objects.filter(pk__in=[bot.pk for bot in bots])
    rows.update(removed_at=turn.at, **NOT_EXPECTED)


def _append_withdrawal(
    turn: Turn, desk: Desk, election: Election, reason: WithdrawalReason
) -> None:
    election.closed, election.reason = turn.position, reason
    data = {**election.as_event_data(), "reason": reason}
    turn.append(Kind.ELECTION_WITHDRAWN, topic=desk.public_id, data=data)


def _save_closed(turn: Turn, desk: Desk, closed: Sequence[Election]) -> None:
    if not closed:
        return
    Election.objects.bulk_update(closed, ["closed", "reason"])
    last = max(election.closed or 0 for election in closed)
    last_change = {"changed": last, "updated_at": turn.at}
    on_cards = [election.card_id for election in closed if election.card_id]
    if on_cards:  # of a desk, only the one on the published card can stand
        Card.objects.filter(pk__in=on_cards).update(standing=F("standing") - 1)
        last_change["enrolled"] = None
    Desk.objects.filter(pk=desk.pk).update(**last_change)


def update_desk(turn: Turn, desk: Desk, **columns: object) -> None:
    """Updates columns of the desk, and the position and time of its last change.

    The position is that of the next event, which the caller appends.
    """
    last_change = {"changed": turn.position, "updated_at": turn.at}
    Desk.objects.filter(pk=desk.pk).update(**last_change, **columns)


def require_connection(desk: Desk) -> None:
    """Raises ``Invalid`` unless the desk is connected."""
    if not Connection.objects.filter(desk=desk).exists():
        raise Invalid("Connect the desk first.")


def refuse_inactive(desk: Desk) -> None:
    """Raises ``NotAllowed`` if the desk's owner is deactivated."""
    if not User.objects.filter(pk=desk.user_id, is_active=True).exists():
        raise NotAllowed(DEACTIVATED)


def refuse_removed(automation: Automation) -> None:
    """Raises ``Invalid`` if the bot was removed."""
    if not Automation.objects.not_removed().filter(pk=automation.pk).exists():
        raise Invalid("This bot was removed.")


# --- Many desks in one turn, with the same rows and events as one by one -------------------------


def open_desks(
    *, users: Sequence[User], actor: Actor, card: Card | None = None, venue: str = ""
) -> list[Desk]:
    """Opens a desk for each user. With a card, connects each to the venue and enrols it.

    Raises ``Invalid`` if the card is not published.
    """
    with log.turn(actor=actor) as turn:
        if card and not Card.objects.published().filter(pk=card.pk).exists():
            raise Invalid(NOT_PUBLISHED)
        before, events_of_each = turn.position - 1, 3 if card else 1
        desks = Desk.objects.bulk_create(
            Desk(
                user=user,
                created_at=turn.at,
                updated_at=turn.at,
                changed=before + number * events_of_each,
                connected=card is not None,
                enrolled=card,
            )
            for number, user in enumerate(users, start=1)
        )
        elections = _connect_and_enrol(turn, desks, card, venue) if card else []
        for desk, election in zip_longest(desks, elections):
            turn.append(Kind.DESK_CREATED, topic=desk.public_id, data={"venue": None})
            if election:
                turn.append(Kind.DESK_CONNECTED, topic=desk.public_id, data={"venue": venue})
                data = election.as_event_data()
                turn.append(Kind.ELECTION_MADE, topic=desk.public_id, data=data)
    return desks


def _connect_and_enrol(
    turn: Turn, desks: Sequence[Desk], card: Card, venue: str
) -> Sequence[Election]:
    Connection.objects.bulk_create(
        Connection(desk=desk, venue=venue, connected_at=turn.at) for desk in desks
    )
    Card.objects.filter(pk=card.pk).update(standing=F("standing") + len(desks))
    return Election.objects.bulk_create(
        Election(
            desk=desk,
            card=card,
            pair=card.pair,
            direction=card.direction,
            opened=desk.changed,
            elected_at=turn.at,
        )
        for desk in desks
    )
