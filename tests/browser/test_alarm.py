"""A bot of a trader goes quiet: the mail and the pages say so, once. Then it is heard again.

The trader does and reads only what the pages and the mails say. The runner decides by its clock;
the test moves what it knows of the past back, instead of waiting for a quarter of an hour.
"""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.running import running
from tests.browser.stage import CHROMIUM
from tests.notices import mails_in
from tests.server import manage
from tests.signals.webhooks.runner.stage import until

pytestmark = [
    pytest.mark.processes,
    pytest.mark.once,
    pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed"),
]

BOT = "Chart alerts"
SILENT, HEARD = f"{BOT} is silent", f"{BOT} sends again"
# Moves the log, and what is expected of bots, an hour and a day into the past.
LATER = """
from datetime import timedelta
from django.db.models import F
from desks.models import Automation
from tests.factories import move_the_log_back
from tests.notices import write
write()
move_the_log_back(days=1)
passed = timedelta(hours=1)
expected = Automation.objects.filter(expected_since__isnull=False)
expected.update(expected_since=F("expected_since") - passed, due_at=F("due_at") - passed)
"""
LINK = re.compile(r"http://\S+/bots/\S+")


@pytest.fixture
def trader(browser):
    with running(browser) as trader:
        yield trader


def an_hour_passes(trader):
    manage(trader.server, "shell", "--no-imports", "-c", LATER)


def mails(trader):
    """The mails about the bot. Another may tell the sign-in."""
    return [mail for mail in mails_in(trader.mails) if BOT in mail["Subject"]]


def subjects(trader):
    return [mail["Subject"] for mail in mails(trader)]


def text(mail):
    return mail.get_body(("plain",)).get_content()


def lines(trader, sentence):
    """The lines of the activity that say this."""
    trader.follow("Activity", "navigation")
    return trader.page.locator("ol.events > li").filter(has_text=sentence)


def push(trader):
    service = trader.service
    assert service.push(service.tradingview(), secret=service.bot["secret"]).status_code == 200


def silent_in(page, minutes):
    """What the form says if it is saved now. The clock may move on meanwhile."""
    clock = "at => new Date(at).toLocaleTimeString('en-GB', {hour: '2-digit', minute: '2-digit'})"
    now = page.evaluate("Date.now()")
    times = [page.evaluate(clock, now + (minutes + late) * 60_000) for late in (0, 1)]
    return re.compile(f"the bot is silent at (.*, )?({'|'.join(times)})\\.$")


def test_a_bot_that_goes_quiet_is_told_by_mail_and_page_once_and_so_when_it_is_heard(trader):
    page = trader.page
    trader.follow("Bots", "navigation")
    trader.follow(BOT)
    trader.follow("Alarm")
    number = page.get_by_label("How many minutes, hours or days")
    expect(number).to_be_disabled()
    page.get_by_label("Every", exact=True).check()
    number.fill("20")
    page.get_by_label("Grace, in minutes").fill("0")
    shown = page.get_by_role("status").filter(has_text="the bot is silent at")
    expect(shown).to_have_text(silent_in(page, minutes=20))
    page.get_by_role("button", name="15 minutes").click()
    expect(shown).to_have_text(silent_in(page, minutes=15))
    trader.press("Save")
    assert re.search("the bot counts as silent in 1[45] minutes or later", trader.says())

    an_hour_passes(trader)
    until(lambda: subjects(trader) == [SILENT])
    [mail] = mails(trader)
    assert mail["To"] == trader.service.seed["user"]["email"]
    page.goto(LINK.search(text(mail)).group())
    expect(page.get_by_role("heading", level=1)).to_have_text(BOT)
    assert "silent for" in trader.says()
    trader.follow("Desk", "navigation")
    assert f"{BOT} silent for" in " ".join(trader.says().split())
    expect(lines(trader, "is silent: nothing was accepted for")).to_have_count(1)

    push(trader)
    until(lambda: len(subjects(trader)) > 1)
    page.goto(LINK.search(text(mails(trader)[-1])).group())
    assert "accepts signals" in trader.says()
    assert "silent for" not in trader.says()
    expect(lines(trader, "sends again. Its last signal before was accepted")).to_have_count(1)

    trader.restart_runner()  # which tells nothing twice, and the next silence again
    an_hour_passes(trader)
    until(lambda: len(subjects(trader)) > 2)
    assert subjects(trader) == [SILENT, HEARD, SILENT]
    expect(lines(trader, "is silent: nothing was accepted for")).to_have_count(2)
