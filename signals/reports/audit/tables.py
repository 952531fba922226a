"""The rows that a table should hold according to the log."""

from typing import Any

from signals.reports.audit.findings import Finding
from signals.reports.audit.rules import Row, differences


class ExpectedRows:
    """The expected rows of one table, by id."""

    def __init__(self, finding: Finding) -> None:
        self.rows: dict[Any, Row] = {}
        self._finding = finding

    def compare(self, name: str, key: Any, stored: Row) -> None:
        """Compares a stored row with the expected one, and drops the expected one."""
        self._finding.count += 1
        expected = self.rows.pop(key, None)
        if expected is None:
            self._finding.breach(name, "not in the log")
        elif differing := differences(expected, stored):
            self._finding.breach(name, *differing)

    def close(self, prefix: str = "") -> None:
        """Reports the expected rows that the table does not hold."""
        for key in self.rows:
            self._finding.breach(f"{prefix}{key}", "no row")
        self.rows.clear()
