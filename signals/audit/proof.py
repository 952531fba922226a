"""What an audit leaves for the next one: every row as the log describes it at a proved position.

The next audit applies the later events to these rows, and compares the result with the tables. The
file holds lines of JSON, compressed with gzip: the place in the log, and then the rows of each
owner. It has the names that users gave, and no secret.
"""

import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from io import BufferedIOBase
from pathlib import Path
from tempfile import mkstemp
from typing import Any

from django.forms.models import model_to_dict

from events.feed import read_head
from events.models import Event, Head
from signals.audit.findings import Finding, Findings
from signals.audit.rows import Owner
from signals.audit.run import Proved, run_audit
from signals.intake.models import Signal

SOURCES = sorted(Path(__file__).parent.glob("*.py"))
# Another audit may ask more of the events: it looks at all of them again.
AUDIT = hashlib.sha256(b"".join(source.read_bytes() for source in SOURCES)).hexdigest()

READ_SIZE = 2**20  # bytes


class ProofUnreadableError(Exception):
    """The file was not written by an audit, or is damaged."""


@dataclass(frozen=True, slots=True)
class Place:
    """A position, and what can be compared again without reading the log up to it.

    ``events`` and ``signals`` are their numbers up to the position. ``last`` is a digest of the
    event at the position. ``audit`` is a digest of the code that proved it.
    """

    epoch: str
    position: int
    events: int
    signals: int
    last: str
    audit: str = AUDIT


def place_at(head: Head, position: int) -> Place:
    last = Event.objects.filter(position=position).first()
    content = _packed(model_to_dict(last) if last else None)
    return Place(
        epoch=head.epoch,
        position=position,
        events=Event.objects.filter(position__lte=position).count(),
        signals=Signal.objects.filter(position__lte=position).count(),
        last=hashlib.sha256(content).hexdigest(),
    )


def continue_audit(file: Path, schema: Finding) -> tuple[Findings, int, str]:
    """Audits from the position that ``file`` proves, and replaces the file if nothing is broken.

    Without the file it looks at the whole log; so it does if the file is of another epoch or of
    another release of the audit. Call it in a snapshot. ``schema`` is what ``audit_schema`` found.

    Returns the findings, the position after which it looked at the log, and a digest of all rows
    at the head that the log describes. It is the same for every audit of this log at this position.
    Raises ``ProofUnreadableError``.
    """
    head = read_head()
    proved, changed = _usable(file, head)
    with _successor(file, place_at(head, head.position)) as successor:
        findings = run_audit(proved, successor.add)
        findings.schema = schema
        if changed:
            findings.positions.breach(changed, "it was proved, and is not there any more")
        successor.is_sound = not any(finding.broken for finding in findings)
    return findings, proved.position, successor.digest


def _usable(file: Path, head: Head) -> tuple[Proved, str]:
    """What the file proves, and the id of its last event if the log has lost what was proved."""
    nothing = Proved()
    if not file.exists():
        return nothing, ""
    lines = _lines(file)
    try:
        proved = Place(**next(lines))
    except (StopIteration, TypeError) as fault:
        raise ProofUnreadableError from fault
    if (proved.epoch, proved.audit) != (head.epoch, AUDIT):
        return nothing, ""
    if proved != place_at(head, proved.position):
        return nothing, f"evt_{proved.position}"
    return Proved(proved.position, lines), ""


def _lines(file: Path) -> Iterator[Any]:
    """The lines of one file, even if it is replaced meanwhile. None of one that is damaged."""
    try:
        with gzip.open(file) as lines:
            while lines.read(READ_SIZE):
                pass  # gzip compares its checksum at the end
            lines.seek(0)
            for line in lines:
                yield json.loads(line, object_hook=_read)
    except (OSError, EOFError, ValueError, zlib.error) as fault:
        raise ProofUnreadableError from fault


class Successor:
    """The proof that an audit writes. ``is_sound`` says whether it becomes one."""

    def __init__(self, packed: BufferedIOBase, place: Place) -> None:
        self.is_sound = False
        self._packed, self._digest = packed, hashlib.sha256()
        packed.write(_packed(asdict(place)))

    def add(self, owner: Owner) -> None:
        if tables := owner.saved():
            line = _packed([owner.id, tables])
            self._digest.update(line)
            self._packed.write(line)

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()


@contextmanager
def _successor(file: Path, place: Place) -> Iterator[Successor]:
    """Writes beside the file, so that it is replaced whole or not at all."""
    number, name = mkstemp(dir=file.parent, prefix=f"{file.name}.")
    try:
        with os.fdopen(number, "wb") as beside:
            with gzip.GzipFile("", "wb", 1, beside, mtime=0) as packed:
                successor = Successor(packed, place)
                yield successor
            beside.flush()
            os.fsync(number)
        if successor.is_sound:
            Path(name).replace(file)
    finally:
        Path(name).unlink(missing_ok=True)


def _packed(value: object) -> bytes:
    return json.dumps(value, default=_written, sort_keys=True).encode() + b"\n"


def _written(time: datetime) -> dict[str, str]:
    return {"time": time.isoformat()}


def _read(value: dict[str, Any]) -> Any:
    return datetime.fromisoformat(value["time"]) if value.keys() == {"time"} else value
