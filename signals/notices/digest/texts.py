"""What a digest says: paragraphs of plain text, which the mail also shows as HTML."""

from collections.abc import Iterator

from django.conf import settings

from desks.models import Automation, Notice, User
from desks.models.notice_kinds import LAST, NoticeKind
from events.kinds import Kind
from events.models import Event
from signals.notices.digest.reading import Counts, Day
from signals.notices.texts import TOLD, new_notice, page, shown
from signals.reports import attention
from signals.reports.reasons import reason_of, title_of
from signals.webhooks.records import MAX_LAG


def digest_notice(day: Day, user: User) -> Notice | None:
    """The digest of a day; None if nothing happened."""
    if not day.has_news:
        return None
    numbers = f"{_total(day.counts, 'filled')} filled, {_total(day.counts, 'refused')} refused"
    notice = new_notice(
        user, NoticeKind.DIGEST, f"Daily digest: {numbers}", _body(day, user, numbers), day.until
    )
    notice.priority = LAST
    return notice


def _body(day: Day, user: User, numbers: str) -> str:
    paragraphs = [
        f"Since {shown(day.since, user)}, on paper: {numbers}.\n{page('activity')}",
        *_section("What happened", (_news(event, user) for event in day.news)),
        *_section("Refused", _refusals(day)),
        *_section("Needs your attention", (_attention(one, user) for one in day.attention)),
        *_section("Bots", (_bot(bot, day.counts, user) for bot in day.bots)),
        *_section("Waiting at webhooks", _webhooks(day)),
        f"You chose this digest. Choose another hour, or none: {page('notices')}",
    ]
    return "\n\n".join(paragraphs)


def _section(title: str, entries: Iterator[str]) -> list[str]:
    """A title and its entries; nothing without entries."""
    found = [f"- {entry}" for entry in entries]
    return [f"{title}:", "\n".join(found)] if found else []


def _news(event: Event, user: User) -> str:
    if event.kind == Kind.CARD_RETIRED:
        subject = f"The card {event.content['data']['card']['name']} was retired"
    else:
        subject = TOLD[event.kind](event, user)[1]
    return f"{subject} ({shown(event.at, user)})\n  {page('event', event.id)}"


def _refusals(day: Day) -> Iterator[str]:
    """Each code with its number, why the last one was refused, and the link to it."""
    names = {bot.pk: bot.name for bot in day.bots}
    for number, event in day.refusals:
        reason = reason_of(event.content["data"], names.get(event.bot_id or ""))
        yield f"{title_of(event.code)} ({number}). {reason}\n  {page('event', event.id)}"


def _attention(concern: attention.Concern, user: User) -> str:
    sentence = f"{concern.sentence} {shown(concern.at, user)}." if concern.at else concern.sentence
    address = f"{settings.BASE_URL}{concern.url}" if concern.url else page("desk")
    return f"{sentence}\n  {address}"


def _bot(bot: Automation, counts: Counts, user: User) -> str:
    """A bot, what it sent, and its state as the first page of the desk shows it."""
    elected = f" ({bot.pair} {bot.direction})" if bot.pair else ""  # type: ignore[attr-defined]
    sent = f"{counts.filled[bot.pk]} filled, {counts.refused[bot.pk]} refused"
    return f"{bot.name}{elected}: {sent}, {_state(bot, user)}"


def _state(bot: Automation, user: User) -> str:
    if bot.silent_since:
        return f"silent since {shown(bot.silent_since, user)}"
    if not bot.pair:  # type: ignore[attr-defined]
        return "no election"
    return "accepts signals" if bot.has_secret else "no secret"  # type: ignore[attr-defined]


def _webhooks(day: Day) -> Iterator[str]:
    for webhook, lag in day.webhooks:
        waiting = f"{MAX_LAG:,} events or more" if lag >= MAX_LAG else f"{lag} events"
        waiting = "1 event" if lag == 1 else waiting
        link = page("webhook", webhook.public_id)
        yield f"{webhook.host}, {webhook.shown_state}: {waiting}\n  {link}"


def _total(counts: Counts, kind: str) -> str:
    number = sum(getattr(counts, kind).values())
    return f"{number:,} or more" if counts.is_cut else f"{number:,}"
