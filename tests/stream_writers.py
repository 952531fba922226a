"""Changes desks, cards and tokens at random: a process beside a server, on its database.

``python -m tests.stream_writers SEED ROUNDS USER_ID…`` prints one line of JSON for each new token:
``{"reader", "token"}``. The reader is a desk's ``userId``, or ``BRIEF`` for a platform token that
expires soon. It begins and ends by giving each reader a token. With 0 rounds it then publishes the
card ``END``, which every reader sees.
"""

import json
import random
import sys
from collections.abc import Callable
from datetime import timedelta

import django

END = "The end"
BRIEF = "brief"  # the reader whose tokens expire
LIFE = timedelta(seconds=2)  # of its tokens
LAST_LIFE = timedelta(hours=1)  # of the last one, with which it reads the list


def main(seed: int, rounds: int, user_ids: list[str]) -> None:
    from django.utils import timezone  # noqa: PLC0415 - Django must be set up first

    from desks import actions  # noqa: PLC0415
    from desks.models import Card, Desk  # noqa: PLC0415
    from events.actors import SYSTEM  # noqa: PLC0415
    from events.http.refusals import Invalid, Refused  # noqa: PLC0415
    from tokens import account_closing  # noqa: PLC0415
    from tokens import actions as credentials  # noqa: PLC0415

    rng = random.Random(seed)
    desks = list(Desk.objects.filter(public_id__in=user_ids).select_related("user"))

    def give(reader: str, token: str) -> None:
        print(json.dumps({"reader": reader, "token": token}), flush=True)

    def mint(desk: Desk) -> None:
        if not desk.deactivated:
            give(desk.public_id, credentials.mint_desk_token(desk=desk, actor=SYSTEM)[0])

    def mint_brief(desk: Desk) -> None:
        end = timezone.now() + (LIFE if rounds else LAST_LIFE)
        try:
            minted = credentials.mint_platform_token(
                name="Brief", scopes=["read"], actor=SYSTEM, expires_at=end
            )
        except Invalid:  # on a busy machine its end may have passed before its turn came
            mint_brief(desk)
        else:
            give(BRIEF, minted[0])

    def enrol(desk: Desk) -> None:
        actions.enrol(desk=desk, card_id=Card.objects.published().get().pk, actor=SYSTEM)

    def withdraw(desk: Desk) -> None:
        actions.withdraw(desk=desk, actor=SYSTEM)

    def connect(desk: Desk) -> None:
        actions.connect(desk=desk, venue="Kraken", actor=SYSTEM)
        enrol(desk)

    def disconnect(desk: Desk) -> None:
        actions.disconnect(desk=desk, actor=SYSTEM)

    def revoke(desk: Desk) -> None:
        credentials.end_credentials(desk=desk, actor=SYSTEM, token=True, secrets=False)

    def publish(_: Desk) -> None:
        card = Card.objects.published().get()
        direction = {"long": "short", "short": "long"}[card.direction]
        actions.publish_card(name="Next", pair=card.pair, direction=direction, actor=SYSTEM)

    def deactivate(desk: Desk) -> None:
        account_closing.deactivate(user=desk.user, actor=SYSTEM)
        desk.refresh_from_db(fields=["deactivated"])

    def reactivate(desk: Desk) -> None:
        if desk.deactivated:
            account_closing.reactivate(user=desk.user, actor=SYSTEM)
            desk.refresh_from_db(fields=["deactivated"])
            mint(desk)
            connect(desk)

    def reactivate_all(_: Desk) -> None:
        for desk in desks:
            reactivate(desk)

    changes: dict[Callable[[Desk], None], int] = {
        enrol: 20,
        withdraw: 8,
        connect: 8,
        disconnect: 2,
        mint: 2,
        revoke: 2,
        publish: 2,
        mint_brief: 2,
        deactivate: 1,
        reactivate_all: 2,
    }

    for desk in desks:
        mint(desk)
    mint_brief(desks[0])
    for _ in range(rounds):
        [change] = rng.choices(list(changes), list(changes.values()))
        try:
            change(rng.choice(desks))
        except Refused:  # the desk is not connected, connected already, or deactivated
            continue
    reactivate_all(desks[0])
    for desk in desks:
        mint(desk)
    if not rounds:
        actions.publish_card(name=END, pair="BTC/USDT", direction="long", actor=SYSTEM)


if __name__ == "__main__":
    django.setup()
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
