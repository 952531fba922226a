"""A client for the engine: pulls desks, deploys, fans out, follows the feed (contract, section 4).

A running service offers it to pip, and its contract page has the command. Installed so, it is the
package ``signals_client``:

    from signals_client import Engine

    with Engine("https://signals.example", token) as engine:
        for desk in engine.desks(ready=True): ...
        engine.fan_out(card, nonce="bar-2026-11-20T09:30")
        for event in engine.follow(Path("cursor")): ...

    copy = DeskCopy()  # of all desks: copy.desks[user_id]
    copy.refresh(engine)  # all desks the first time, then what changed

    event = verify_webhook(request.body, request.headers, "whsec_…")
    answer = webhook_answer(event, "whsec_…")  # the body of your answer, with status 200

It needs Python 3.11 and httpx2, and imports nothing else of this repository. Every call is safe to
repeat: reads
change nothing, and the service accepts a nonce only once. So if a response is lost, or the service
is unavailable or busy, the client retries until ``timeout``. Derive the nonce from what the signal
is about, such as a bar or an order, so that the engine sends the same nonce after a crash.
"""

from .engine import HOOK as HOOK
from .engine import Accepted as Accepted
from .engine import Card as Card
from .engine import Checked as Checked
from .engine import ClientError as ClientError
from .engine import Desk as Desk
from .engine import DeskCopy as DeskCopy
from .engine import DeskPage as DeskPage
from .engine import Engine as Engine
from .engine import Event as Event
from .engine import EventFilter as EventFilter
from .engine import EventSearch as EventSearch
from .engine import Page as Page
from .engine import Refusal as Refusal
from .engine import RemovedDesk as RemovedDesk
from .engine import UnreachableError as UnreachableError
from .webhooks import InvalidWebhookError as InvalidWebhookError
from .webhooks import verify_webhook as verify_webhook
from .webhooks import webhook_answer as webhook_answer
