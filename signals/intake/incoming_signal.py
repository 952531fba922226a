"""An incoming signal: a request body and its sender (contract, section 4)."""

import re
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property

from desks.models import Automation, Desk
from desks.pair_and_direction import PAIR_FORM, Direction
from events.actors import Actor
from events.http.rate_limits import try_consume_in_process
from events.http.refusals import ExchangeSecret, Refused
from events.json_schema import JsonObject
from signals.law.signal_body import nonce_of
from tokens.choices import Source
from tokens.crypto.exchange_secrets import contains_secret
from tokens.models import SigningSecret, Token

Credential = Token | SigningSecret

DIRECTION_FORM = "|".join(Direction.values())
MAX_SENT_LENGTH = 41  # characters; a longer pair or direction of a refused signal is not recorded


class Allowance(Enum):
    """What is left of the refusals of one sender that the log records (contract, section 4).

    Each process counts for itself, because the count is needed under the log's lock.
    """

    LEFT = auto()  # the refusal is recorded
    USED_UP = auto()  # one event says that this refusal and those that follow are not recorded
    REPORTED = auto()  # nothing is recorded


@dataclass(frozen=True)
class IncomingSignal:
    """A request body and its sender.

    ``automation`` is the bot that the signal belongs to. ``credential`` is None if nothing
    authorised the request. Such a signal is only recorded as refused. ``deploy_to`` is the desk in
    the path. ``request_id`` names the request.
    """

    body: JsonObject
    credential: Credential | None
    automation: Automation | None = None
    deploy_to: str | None = None
    request_id: str | None = None

    @property
    def credential_id(self) -> str | None:
        return self.credential.public_id if self.credential else None

    @property
    def actor(self) -> Actor | None:
        """The sender, as the actor of an event."""
        return self.credential.actor if self.credential else None

    @cached_property
    def allowance(self) -> Allowance:
        """What is left for a refusal of this signal. It is counted once, however often it is read.

        All unsigned requests of a desk are one sender.
        """
        sender = self.credential_id or self.owner_id or ""
        if try_consume_in_process("refusals", sender):
            return Allowance.LEFT
        is_news = try_consume_in_process("refusals_suppressed", sender)
        return Allowance.USED_UP if is_news else Allowance.REPORTED

    @property
    def source(self) -> Source | None:
        """The source in the body, or None if it is not one."""
        source = self.body.get("source")
        return Source(source) if source in list(Source) else None

    @property
    def owner_id(self) -> str | None:
        """The userId of the bot's desk, or None if no bot sent it."""
        return self.automation.desk.public_id if self.automation else None

    def user_id(self) -> str | None:
        """The userId of the target desk: the bot's desk or the named one. None if there is none."""
        named = self.deploy_to or self.body.get("userId")
        if self.automation or not isinstance(named, str):
            return self.owner_id
        return named if Desk.objects.filter(public_id=named).exists() else None

    def marks(self, refusal: Refused) -> dict[str, str | None]:
        """What names the refused request to its sender and the platform: request id and nonce.

        The nonce is None if nothing authorised the request, if it is not valid, or if the body
        contains a secret.
        """
        is_known = self.credential is not None and not isinstance(refusal, ExchangeSecret)
        nonce = nonce_of(self.body) if is_known else None
        return {"requestId": self.request_id, "nonce": nonce}

    def sent(self) -> dict[str, str | None]:
        """The pair and direction to record. Both are None if the body contains a secret.

        Of a stranger's text only what has the form of a pair or a direction is recorded.
        """
        keep = not contains_secret(self.body)
        return {
            name: self._recorded(self.body.get(name), form) if keep else None
            for name, form in (("pair", PAIR_FORM), ("direction", DIRECTION_FORM))
        }

    def _recorded(self, value: object, form: str) -> str | None:
        if not isinstance(value, str) or len(value) > MAX_SENT_LENGTH or not value.isprintable():
            return None
        return value if self.credential or re.fullmatch(form, value) else None
