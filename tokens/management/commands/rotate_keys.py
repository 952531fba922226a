"""manage.py rotate_keys: after a new key was put first, move everything to it."""

import json
from collections.abc import Iterable
from typing import Any, TypeVar

from allauth.mfa.models import Authenticator
from django.core.management.base import BaseCommand, CommandError, CommandParser
from tqdm import tqdm

from tokens import rotation
from tokens.keys import KeyLostError

Work = TypeVar("Work")


class Command(BaseCommand):
    help = (
        "Encrypts every signing secret and second factor anew under the first of SECRET_KEYS, and "
        "lists the tokens whose digest still stands on an older one of TOKEN_KEYS: those move at "
        "their next use, or are revoked. Can be stopped at any point and run again. An older key "
        "may go from the environment when nothing is listed."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="one JSON object, for a program")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            secrets, factors = _moved()
        except KeyLostError as lost:
            raise CommandError(f"{lost} Put its key back into SECRET_KEYS and run again.") from lost
        waiting = [
            {"id": token.public_id, "name": token.name, "hint": token.hint}
            for token in rotation.tokens_on_old_keys()
        ]
        if options["json"]:
            report = {"secrets": secrets, "secondFactors": factors, "tokensOnOldKeys": waiting}
            self.stdout.write(json.dumps(report))
            return
        self.stdout.write(f"{secrets} signing secrets and {factors} second factors moved.")
        for token in waiting:
            self.stdout.write(f"On an older key: {token['id']} {token['hint']} {token['name']}")
        if not waiting:
            self.stdout.write("No token stands on an older key.")


def _moved() -> tuple[int, int]:
    """How many signing secrets and second factors it moved; raises ``KeyLostError``."""
    to_move = rotation.secrets_on_old_keys().count()
    moved = sum(1 for _ in _shown("Secrets", rotation.reencrypt_secrets(), to_move))
    everyones = Authenticator.objects.count()
    return moved, sum(_shown("Second factors", rotation.reencrypt_second_factors(), everyones))


def _shown(what: str, work: Iterable[Work], total: int) -> Iterable[Work]:
    """Shows on a terminal, and nowhere else, how far the work is."""
    return tqdm(work, desc=what, total=total, leave=False, disable=None)
