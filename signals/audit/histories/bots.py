"""The bots of one desk, and what is expected of them, rebuilt from the log."""

from datetime import datetime, timedelta
from typing import Any

from desks.models import Automation
from desks.models.automation import NOT_EXPECTED
from events.times import to_rfc3339
from signals.audit.findings import Findings
from signals.audit.rules import AuditMismatchError, Row, moment, require, require_same
from signals.audit.streams import LoggedEvent
from signals.audit.tables import ExpectedRows

# The columns of what is expected. When the service looks next (``due_at``) is not in the log.
COLUMNS = [name for name in NOT_EXPECTED if name != "due_at"]
NOTHING = dict.fromkeys(COLUMNS)


class BotHistory:
    """Every bot of a desk in the log so far, by id."""

    def __init__(self, findings: Findings) -> None:
        self.table = ExpectedRows(findings.automations, "id")
        self._heard: dict[str, datetime] = {}  # the last fill of each bot
        self._heard_again: dict[str, datetime] = {}  # the first fill of each since it was silent

    # --- Event handlers ------------------------------------------------------------------------

    def add(self, event: LoggedEvent) -> None:
        bot_id = event.data["botId"]
        bot = {
            "id": bot_id,
            "name": event.data["name"],
            "created_at": event.at,
            "removed_at": None,
            "max_age": None,
            **NOTHING,
        }
        require_same(event.data, Automation(**bot).as_event_data())
        require(bot_id not in self.table.rows, "botId")
        self.table.rows[bot_id] = bot

    def remove(self, event: LoggedEvent) -> None:
        bot = self.active(event.data["botId"])
        require_same(event.data, Automation(**bot).as_event_data())
        bot.update(removed_at=event.at, **NOTHING)

    def change(self, event: LoggedEvent) -> None:
        bot, expected = self.active(event.data["botId"]), event.data["expected"]
        before = Automation(**bot)
        columns = {name: expected[name] if expected else None for name in ("every", "grace")}
        after = Automation(**{**bot, **columns, "max_age": event.data["maxAge"]})
        require_same(event.data, after.as_change_data())
        require(before.as_change_data() != after.as_change_data(), "nothing changed")
        bot["max_age"] = after.max_age
        if before.expectation != after.expectation:
            bot.update(NOTHING, **columns)
            bot["expected_since"] = event.at if expected else None

    def fall_silent(self, event: LoggedEvent) -> None:
        bot = self.active(event.data["botId"])
        require(bot["silent_from"] is None, "the bot was silent")
        since = max(bot["expected_since"], self._heard.get(bot["id"], bot["expected_since"]))
        due = self._due(event, Automation(**bot), since)
        self._require_times(event, bot, since=since, dueAt=due)
        require(due <= event.at, "dueAt")
        bot.update(silent_since=since, silent_from=event.position)
        self._heard_again.pop(bot["id"], None)

    def be_heard(self, event: LoggedEvent) -> None:
        bot = self.active(event.data["botId"])
        require(bot["silent_from"] is not None, "the bot was not silent")
        heard = self._heard_again[bot["id"]]
        self._require_times(event, bot, since=bot["silent_since"], heardAt=heard)
        bot.update(silent_since=None, silent_from=None)

    def fill(self, event: LoggedEvent) -> None:
        """Notes when a bot's signal was accepted."""
        bot_id = event.content["signal"]["botId"]
        self._heard[bot_id] = event.at
        self._heard_again.setdefault(bot_id, event.at)

    # --- Queries -------------------------------------------------------------------------------

    def active(self, bot_id: str) -> Row:
        """The bot's row. Raises ``AuditMismatchError`` if it was removed."""
        bot = self.table.rows[bot_id]
        require(bot["removed_at"] is None, "the bot was removed")
        return bot

    def not_removed(self) -> list[Row]:
        return [bot for bot in self.table.rows.values() if not bot["removed_at"]]

    def _due(self, event: LoggedEvent, bot: Automation, since: datetime) -> datetime:
        """By when the bot was expected. The log does not know the zone of trading days."""
        expectation, due = bot.expectation, moment(event.data["dueAt"])
        if expectation is None or due is None:
            raise AuditMismatchError("the bot was not expected")
        if expectation.every is not None:
            return expectation.deadline(since, "UTC")
        day = timedelta(days=1)
        by_utc = expectation.deadline(since, "UTC")
        require(by_utc - 3 * day <= due <= by_utc + 3 * day, "dueAt")
        return due

    def _require_times(self, event: LoggedEvent, bot: Row, **times: datetime) -> None:
        said: dict[str, Any] = {name: to_rfc3339(at) for name, at in times.items()}
        require_same(event.data, {**Automation(**bot).as_event_data(), **said})
