"""Everything that a trader copies to run a relay: settings, unit, web server, check, alert.

The texts are in ``templates/relay/``. In them the secret stays blank: the trader pastes it. The
relay's programs are ``static/relay.py`` and ``static/relay.worker.js``.
"""

from base64 import urlsafe_b64encode
from dataclasses import dataclass

from django.conf import settings
from django.templatetags.static import static
from django.urls import reverse
from django.utils.crypto import salted_hmac

from desks.models import Automation
from signals.contract.samples import plain_text

EXAMPLE_HOST = "relay.example.com"
PATH_BYTES = 24
FILES = (
    *("install.sh", "settings.env", "unit.service", "container.sh", "caddy.txt", "nginx.conf"),
    *("check.sh", "variables.env", "check_worker.sh"),
)


@dataclass(frozen=True, slots=True)
class RelaySetup:
    """The relay's host name and address, and the texts by the names of their files."""

    host: str
    url: str
    texts: dict[str, str]


def relay_setup(bot: Automation, host: str, message: str) -> RelaySetup:
    """The texts for a relay at this host name. ``message`` is the one that its check sends."""
    path = relay_path(bot)
    values = {
        "host": host,
        "path": path,
        "hook": settings.BASE_URL + reverse("hook"),
        "program": settings.BASE_URL + static("relay.py"),
        "message": message,
    }
    texts = {
        file.partition(".")[0]: plain_text(f"relay/{file}", **values).rstrip() for file in FILES
    }
    return RelaySetup(host, f"https://{host}{path}", texts)


def relay_path(bot: Automation) -> str:
    """A path for the bot's relay that nobody can guess, the same each time the page is opened.

    The service stores it nowhere.
    """
    digest = salted_hmac("signals.pages.relay_path", bot.pk, algorithm="sha256").digest()
    return "/" + urlsafe_b64encode(digest[:PATH_BYTES]).decode()
