"""The rows that a table should hold according to the log."""

from collections.abc import Mapping
from typing import Any

from django.db.models import QuerySet

from signals.audit.findings import Finding
from signals.audit.rules import Row
from signals.audit.streams import CHUNK


class ExpectedRows:
    """The expected rows of one table, by the value of their column ``key``.

    A row is named by ``prefix`` and that value. It has the columns that are compared.
    """

    def __init__(self, finding: Finding, key: str, prefix: str = "") -> None:
        self.rows: dict[Any, Row] = {}
        self._finding, self._key, self._prefix = finding, key, prefix

    def compare(self, stored: Mapping[str, Any]) -> None:
        """Compares a stored row with the expected one, and drops the expected one."""
        self._finding.count += 1
        key = stored[self._key]
        expected = self.rows.pop(key, None)
        if expected is None:
            self._finding.breach(f"{self._prefix}{key}", "not in the log")
        elif differing := [name for name in expected if expected[name] != stored[name]]:
            self._finding.breach(f"{self._prefix}{key}", *differing)

    def compare_all(self, rows: QuerySet[Any]) -> None:
        """Compares all rows of the table, and reports those that are missing."""
        for row in rows.values().iterator(chunk_size=CHUNK):
            self.compare(row)
        self.close()

    def close(self) -> None:
        """Reports the expected rows that the table does not hold."""
        for key in self.rows:
            self._finding.breach(f"{self._prefix}{key}", "no row")
        self.rows.clear()
