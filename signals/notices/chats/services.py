"""The services that carry notices to chats: the form of their URLs, and of a message to them.

Telegram has no URLs of chats: the operator's bot learns of them from those who write to it.
"""

import json
import re
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from django.conf import settings
from django.utils.text import get_text_list

from desks.models.chat import Service
from events.json_schema import JsonObject
from signals.outbound.addresses import ForbiddenURL, Target, check_url

# Characters of a message. A longer one is cut. ntfy takes 4,096 bytes.
MAX_TEXT = {Service.DISCORD: 2000, Service.SLACK: 4000, Service.NTFY: 1000, Service.TELEGRAM: 2000}
TOPIC = re.compile(r"/(?P<topic>[-_A-Za-z0-9]{1,64})")
PATHS = {
    Service.DISCORD: re.compile(r"/api/(v[0-9]{1,2}/)?webhooks/[0-9]{15,25}/[-_A-Za-z0-9]{20,128}"),
    Service.SLACK: re.compile(r"/services/T[A-Z0-9]+/B[A-Z0-9]+/[A-Za-z0-9]{8,64}"),
    Service.NTFY: TOPIC,
}
# What Discord would read as formatting.
DISCORD_MARKS = re.compile(r"[\\`*_~|<\[\]]|^[#>-]", re.M)
SUPPRESS_EMBEDS = 1 << 2  # a flag of Discord's messages: no previews of links
CUT = "…"


class Request(NamedTuple):
    """A POST of JSON to a chat."""

    url: str
    body: bytes


def hosts() -> dict[Service, Sequence[str]]:
    """The hosts of each service that has URLs. The operator chooses those of ntfy."""
    return {
        Service.DISCORD: ("discord.com", "discordapp.com"),
        Service.SLACK: ("hooks.slack.com",),
        Service.NTFY: settings.NTFY_HOSTS,
    }


def read(url: str) -> tuple[Service, Target]:
    """The service of a chat's URL, and the checked URL.

    Raises ``ForbiddenURL`` unless it is one of a service offered.
    """
    try:
        target = check_url(url)
    except ForbiddenURL as refusal:
        if refusal.code == "form":
            raise ForbiddenURL("form", _expected()) from None
        raise
    for service, names in hosts().items():
        if target.authority not in names:
            continue
        if target.scheme != "https":
            raise ForbiddenURL("scheme", "The address must begin with https://.")
        if not PATHS[service].fullmatch(target.path):
            raise ForbiddenURL("path", f"This is not an address of {FORMS[service]}.")
        return service, target
    raise ForbiddenURL("service", _expected())


def _expected() -> str:
    offered = [FORMS[service] for service, names in hosts().items() if names]
    return f"Enter the address of {get_text_list(offered, 'or')}."


def is_offered(service: str, host: str) -> bool:
    """Whether messages may still be sent there: the operator may have removed a host or a bot."""
    if service == Service.TELEGRAM:
        return host == bot_name()
    if service == Service.NTFY:
        return host in settings.NTFY_HOSTS
    return service in Service.values  # a later release may know more


def request_of(service: str, url: str, subject: str, body: str) -> Request:
    """The request that sends a notice to a chat with this URL, or number."""
    content: JsonObject
    most = MAX_TEXT[Service(service)]
    match service:
        case Service.DISCORD:
            text = f"**{_without_marks(subject)}**\n{_without_marks(body)}"
            content = {
                "content": cut(text, most),
                "allowed_mentions": {"parse": []},
                "flags": SUPPRESS_EMBEDS,
            }
        case Service.SLACK:
            # Slack reads links and mentions between the marks of HTML.
            text = escape(cut(f"{subject}\n{body}", most), quote=False)
            unfurls = {"unfurl_links": False, "unfurl_media": False}
            content = {"text": text, "mrkdwn": False, **unfurls}
        case Service.NTFY:  # as JSON at the root, so that no header holds text
            root, _, topic = url.rpartition("/")
            url = f"{root}/"
            content = {"topic": topic, "title": subject, "message": cut(body, most)}
        case _:  # plain text: without a ``parse_mode`` nothing is formatting at Telegram
            content = {
                "chat_id": int(url),
                "text": cut(f"{subject}\n\n{body}", most),
                "link_preview_options": {"is_disabled": True},
            }
            url = bot_url("sendMessage")
    return Request(url, json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode())


FORMS = {
    Service.DISCORD: "a Discord webhook",
    Service.SLACK: "a Slack incoming webhook",
    Service.NTFY: "an ntfy topic",
}


def cut(text: str, most: int) -> str:
    """The text, or as much of it as fits. The last line of a notice is a link, and stays."""
    if len(text) <= most:
        return text
    beginning, gap, link = text.rpartition("\n\n")
    end = f"{CUT}{gap}{link}" if gap and len(link) < most // 2 else CUT
    return (beginning if end != CUT else text)[: most - len(end)] + end


def _without_marks(text: str) -> str:
    """The text with every mark escaped, but in our own links."""
    ours = re.compile(f"({re.escape(settings.BASE_URL)}/[-/_.A-Za-z0-9]*)")
    parts = ours.split(text)
    parts[::2] = [DISCORD_MARKS.sub(r"\\\g<0>", part) for part in parts[::2]]
    return "".join(parts)


# --- The operator's bot at Telegram: its addresses and its links ----------------------------------

API = "https://api.telegram.org"
LINK = "https://t.me/"


def has_bot() -> bool:
    """Whether the operator has a bot."""
    return bool(settings.TELEGRAM_BOT_TOKEN)


def bot_name() -> str:
    """The name of the bot, as Telegram shows it."""
    return f"@{settings.TELEGRAM_BOT}" if has_bot() else ""


def bot_url(method: str) -> str:
    """The address of a method of the API. It contains the bot's token."""
    return f"{API}/bot{settings.TELEGRAM_BOT_TOKEN}/{method}"


def bot_link(code: str) -> str:
    """The link that opens the bot, and sends it the code when its reader presses Start."""
    return f"{LINK}{settings.TELEGRAM_BOT}?start={code}"


def read_pause(body: bytes) -> float | None:
    """The seconds for which a refused message asks to wait, if it says so."""
    try:
        return float(json.loads(body)["parameters"]["retry_after"])
    except (ValueError, KeyError, TypeError):
        return None
