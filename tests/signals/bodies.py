"""Valid bodies of the four shapes of a signal. Keyword arguments change members."""

import itertools
from typing import Any

from desks.models import Desk
from tests.client import Response, push
from tests.factories import DIRECTION, PAIR, Bot

_numbers = itertools.count(1)


def a_nonce(prefix: str = "n-") -> str:
    return f"{prefix}{next(_numbers)}"


def tradingview(bot: Bot, **changes: Any) -> dict[str, Any]:
    """A bot's signal. It repeats the election that ``a_bot`` makes."""
    body = {"botId": bot.id, "pair": "ETH/USDT", "direction": "short", "nonce": a_nonce()}
    return {**body, "elected": True, "source": "tradingview", **changes}


def send(bot: Bot, **changes: Any) -> Response:
    """Pushes a bot's signal, signed with its secret."""
    return push(tradingview(bot, **changes), secret=bot.secret)


def deploy(**changes: Any) -> dict[str, Any]:
    """A signal for the desk in the path."""
    body = {"pair": PAIR, "direction": DIRECTION, "nonce": a_nonce(), "elected": True}
    return {**body, "source": "floor", "mode": "paper", **changes}


def floor(desk: Desk, **changes: Any) -> dict[str, Any]:
    """A signal for the desk in the body."""
    return {"userId": desk.public_id, **deploy(), **changes}


def fanout(**changes: Any) -> dict[str, Any]:
    """A signal for every ready desk."""
    body = {"fanout": True, "pair": PAIR, "direction": DIRECTION, "nonce": a_nonce()}
    return {**body, "elected": True, "source": "floor", **changes}


def nox(**changes: Any) -> dict[str, Any]:
    """A signal of Nox for every ready desk."""
    return {
        "fanout": True,
        "action_id": a_nonce("act_"),
        "trace_id": "trc_1",
        "pair": PAIR,
        "direction": DIRECTION,
        "elected": True,
        "source": "nox",
        "mode": "paper",
        "size_quote": None,
        "rationale": "The trend holds.",
        "decision_ref": None,
        **changes,
    }
