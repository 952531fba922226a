"""manage.py rotate_keys: after a new key was put first, move everything to it."""

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from tokens import rotation
from tokens.keys import KeyLostError


class Command(BaseCommand):
    """Re-encrypts what is encrypted, and lists the tokens that still need an older key."""

    help = (
        "Encrypts every signing secret and second factor anew under the first of SECRET_KEYS, and "
        "lists the tokens whose digest still stands on an older one of TOKEN_KEYS: those move at "
        "their next use, or are revoked. Can be stopped at any point and run again. An older key "
        "may go from the environment when nothing is listed."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="one JSON object, for a script")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            secrets = sum(1 for _ in rotation.reencrypt_secrets())
            factors = sum(1 for _ in rotation.reencrypt_second_factors())
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
