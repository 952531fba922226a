"""manage.py rotate_keys: re-encrypts and re-signs everything with the first keys."""

import json
from datetime import timedelta

from allauth.account import app_settings as accounts
from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from config.accounts import signup
from config.accounts.sessions import reseal_sessions
from desks.models import Chat
from events.management.base_command import COULD_NOT_RUN, LogCommand
from events.times import to_rfc3339
from signals.webhooks.models import DeliveryAttempt, Subscription, SubscriptionSecret
from tokens import key_rotation
from tokens.crypto.keys import KeyLostError
from tokens.models import Sealed, SigningSecret
from tokens.models.token import TokenRecord

FOUND_SOME = 1  # exit status
# A subscription's URL, its secrets, and what its endpoint answered.
OF_WEBHOOKS: tuple[type[Sealed], ...] = (Subscription, SubscriptionSecret, DeliveryAttempt)


class WaitingToken(TokenRecord):
    """A token that uses an old key. Its record says whose it is."""

    key: str


class Command(LogCommand):
    help = (
        "Run it when a new key is the first one on every server. It encrypts and signs every "
        "signing secret, webhook, chat, second factor and session with the first key of "
        "SECRET_KEYS and SECRET_KEY. It lists the tokens whose digest uses another one of "
        "TOKEN_KEYS: a token moves when it is used. You can stop the command at any point and run "
        "it again. Exit status 0: nothing needs another key than the first, and you may remove "
        "the others; 1: something did, and the command moved what it could; 2: it could not run."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="one JSON object, for a program")

    def handle(self, *args: object, **options: object) -> None:
        now = timezone.now()
        try:
            moved = _moved()
        except KeyLostError as lost:
            raise CommandError(
                f"{lost} Put its key back into SECRET_KEYS and run again.",
                returncode=COULD_NOT_RUN,
            ) from lost
        waiting: list[WaitingToken] = [
            {**token.to_dict(), "key": token.key_id}
            for token in key_rotation.tokens_on_old_keys(now)
        ]
        links_end = to_rfc3339(now + _longest_link()) if settings.SECRET_KEY_FALLBACKS else None
        if options["json"]:
            report = {**moved, "tokensOnOldKeys": waiting, "linksEnd": links_end}
            self.stdout.write(json.dumps(report))
        else:
            self._say(moved, waiting, links_end)
        if waiting or any(moved.values()):
            raise CommandError(
                f"Keep every key, and run again until nothing is moved and no token is listed. "
                f"{len(waiting)} tokens are listed: each moves when it is used or revoked.",
                returncode=FOUND_SOME,
            )

    def _say(
        self, moved: dict[str, int], waiting: list[WaitingToken], links_end: str | None
    ) -> None:
        self.stdout.write(
            f"Moved to the first key: {moved['secrets']} signing secrets, "
            f"{moved['webhooks']} texts of webhooks, {moved['chats']} chats, "
            f"{moved['secondFactors']} second factors, {moved['sessions']} sessions."
        )
        for token in waiting:
            used = f"last used {token['lastUsedAt']}" if token["lastUsedAt"] else "never used"
            self.stdout.write(
                f"On the key {token['key']}: {token['id']} {token['hint']} {token['name']}, {used}"
            )
        if links_end:
            self.stdout.write(
                "Links in emails become invalid when you remove the SECRET_KEY that signed them. "
                f"Links sent until now expire by {links_end}."
            )
        if not waiting and not any(moved.values()):
            self.stdout.write("Nothing needs another key than the first.")


def _moved() -> dict[str, int]:
    """Moves everything and returns the count of each kind. Raises ``KeyLostError``."""
    return {
        "secrets": _reencrypted(SigningSecret),
        "webhooks": _reencrypted(*OF_WEBHOOKS),
        "chats": _reencrypted(Chat),
        "secondFactors": sum(key_rotation.reencrypt_second_factors()),
        "sessions": sum(reseal_sessions()),
    }


def _reencrypted(*models: type[Sealed | Chat]) -> int:
    return sum(1 for model in models for _ in key_rotation.reencrypt(model))


def _longest_link() -> timedelta:
    """Returns the longest lifetime of a link in an email."""
    return max(
        timedelta(seconds=settings.PASSWORD_RESET_TIMEOUT),
        timedelta(days=accounts.EMAIL_CONFIRMATION_EXPIRE_DAYS),
        signup.LIFETIME,
    )
