"""Real processes of ``manage.py deliver``: mail, chat and page say that a bot is silent."""

from datetime import timedelta
from pathlib import Path

import pytest
import time_machine
from django.db import connection  # noqa: F401 - the condition below names it
from django.utils import timezone

from desks.models import Bookmark, Chat, QueuedNotice
from desks.models.notice import NoticeKind
from desks.notices.outbox import write as write_notices
from desks.notices.outbox import write_security
from events.models import Event
from signals.notices.texts import new_notice
from signals.notices.triggers import LOG
from tests.client import push, signed_in
from tests.factories import a_bot, a_card, a_ready_desk, expect, expecting, move_the_log_back
from tests.notices import mails_in, table_away, waiting, write
from tests.pages import words
from tests.signals.bodies import tradingview
from tests.signals.notices.chats.stage import a_chat, heard_by
from tests.signals.outbound.listeners import endpoint
from tests.signals.webhooks.runner.stage import RunnerProcess, runners, until
from tests.staff import verified

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.processes,
    pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite takes one process"),
]

HOUR = timedelta(hours=1)


def mails(folder: Path) -> list[str]:
    """The subjects of the mails in the folder, in their order."""
    return [message["Subject"] for message in mails_in(folder)]


@pytest.fixture
def chat():
    """What a chat of a user hears."""
    with endpoint() as heard:
        yield heard


def test_mails_are_sent_while_the_loop_of_chats_fails_and_chats_get_theirs_after_it(tmp_path, chat):
    desk = a_ready_desk(a_card())
    verified(desk.user)
    a_chat(desk.user, chat.url())
    folder = tmp_path / "mails"
    folder.mkdir()
    address = f"filemail:///{folder}"
    runner = RunnerProcess(tmp_path / "log", EMAIL_URL=address, BASE_URL="http://testserver")
    try:
        until(
            Bookmark.objects.filter(name=LOG).exists
        )  # it runs; without the table it would not start
        later = timezone.now() + HOUR
        write_notices(
            [new_notice(desk.user, NoticeKind.SILENCE, "Chart is silent", "It is.", later)]
        )
        write_security(desk.user.pk, "Password changed", "It was.", at=later)
        with table_away(Chat):
            QueuedNotice.objects.update(due_at=timezone.now())
            until(lambda: "A loop of the runner failed" in runner.log.read_text())
            until(lambda: len(mails(folder)) == 2)
        until(lambda: len(chat.requests) == 2 and not waiting())
    finally:
        runner.kill()
    assert mails(folder) == ["Password changed", "Chart is silent"]
    said = [body["content"].partition("\n")[0] for body in heard_by(chat)]
    assert said == ["**Password changed**", "**Chart is silent**"]


def test_a_bot_that_falls_silent_is_told_once_by_mail_chat_and_page(tmp_path, chat):
    desk = a_ready_desk(a_card())
    verified(desk.user)
    a_chat(desk.user, chat.url())
    bot, folder = a_bot(desk), tmp_path / "mails"
    folder.mkdir()
    write()
    move_the_log_back(days=1)
    with time_machine.travel(timezone.now() - 2 * HOUR):
        expect(bot, expecting(HOUR, timedelta(0)))
    Event.objects.filter(kind="automation.changed").update(at=timezone.now() - 2 * HOUR)
    owner = signed_in(desk.user)
    address = f"filemail:///{folder}"
    with runners(tmp_path, 2, EMAIL_URL=address, BASE_URL="http://testserver"):
        until(lambda: mails(folder) == ["Chart is silent"])
        assert "silent for" in words(owner.get(f"/bots/{bot.id}"))
        assert "Chart is silent" in words(owner.get("/desk"))
        push(tradingview(bot), secret=bot.secret)
        until(lambda: len(mails(folder)) > 1 and len(chat.requests) > 1)
    # Both may have the same second.
    assert sorted(mails(folder)) == ["Chart is silent", "Chart sends again"]
    said = [body["content"].partition("\n")[0] for body in heard_by(chat)]
    assert said == ["**Chart is silent**", "**Chart sends again**"]
    assert "silent for" not in words(owner.get(f"/bots/{bot.id}"))
    told = Event.objects.filter(kind__in=["automation.quiet", "automation.heard"])
    assert told.count() == 2
