"""The accounts of a drill: those of ``seed``, and customers who can sign in and have a bot."""

import io
import json
from typing import Any

from allauth.account.models import EmailAddress
from django.core.management import call_command

from desks import actions
from desks.models import Desk, User
from events.actors import SYSTEM
from tokens.actions import generate_secret
from tokens.choices import Source

READY = 20  # desks that stay ready
PASSWORD = "correct horse battery staple"
ELECTED = {"pair": "ETH/USDT", "direction": "long"}


def make(customers: int) -> dict[str, Any]:
    """Fills an empty database. Returns the output of ``seed`` and the customers."""
    printed = io.StringIO()
    call_command("migrate", interactive=False, verbosity=0)
    call_command("createcachetable", verbosity=0)
    call_command("seed", f"--desks={READY}", "--idle=2", "--json", stdout=printed)
    seed = json.loads(printed.getvalue())
    return {"seed": seed, "customers": [_customer(number) for number in range(customers)]}


def _customer(number: int) -> dict[str, str]:
    user = User.objects.create_user(f"customer-{number}@example.com", PASSWORD)
    EmailAddress.objects.create(user=user, email=user.email, verified=True, primary=True)
    desk = actions.open_desk(desk=Desk(user=user), actor=SYSTEM)
    assert desk is not None
    actions.connect(desk=desk, venue="Kraken", actor=SYSTEM)
    bot = actions.add_automation(desk=desk, name="Chart", actor=SYSTEM)
    actions.elect(automation=bot, actor=SYSTEM, **ELECTED)
    secret, _ = generate_secret(source=Source.TRADINGVIEW, automation=bot, actor=SYSTEM)
    account = {"login": user.email, "password": PASSWORD, "userId": desk.public_id}
    return {**account, "botId": bot.pk, "secret": secret, **ELECTED}
