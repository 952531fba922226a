"""Opens a customer's account: user, verified e-mail address and desk in one transaction."""

from allauth.account.models import EmailAddress
from django.db import IntegrityError

from desks.actions import open_desk
from desks.models import Desk, User
from events import log


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
    try:
        return _open(address, password)
    except IntegrityError:
        if is_taken(address):
            return None
        raise


def _open(address: str, password: str) -> User:
    user = User(email=address, password=password)
    desk = Desk(user=user)
    with log.turn(actor=desk.actor):
        user.save(force_insert=True)
        EmailAddress.objects.create(user=user, email=address, verified=True, primary=True)
        open_desk(desk=desk, actor=desk.actor)
    return user
