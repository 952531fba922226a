"""What an audit leaves for the next one: every row as the log describes it at a proved position.

The next audit applies the later events to these rows, and compares the result with the tables. The
file holds lines of JSON, compressed with gzip: the place in the log, and then the rows of each
owner. It has the names that users gave, and no secret.

A long log is replayed in steps, of which each leaves such a file for the next one.
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
from tempfile import TemporaryDirectory
from typing import Any

from django.forms.models import model_to_dict

from events.feed import read_head
from events.models import Event, Head
from events.statements import snapshot
from signals.audit.findings import Findings
from signals.audit.rows import Owner
from signals.audit.run import Proved, run_audit
from signals.intake.models import Signal

# The events of a step. The database sorts them, in a gigabyte of temporary files.
STEP = 1_000_000

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


NOWHERE = Place(epoch="", position=0, events=0, signals=0, last="")


@dataclass(frozen=True, slots=True)
class Audit:
    """Where an audit ended: at ``head``. It looked at the events behind the position ``after``.

    ``digest`` is of all rows at the head that the log describes. It is the same for every audit of
    this log at this position.
    """

    head: Head
    after: int
    digest: str


def audit(file: Path, findings: Findings) -> Audit:
    """Audits from the position that ``file`` proves, in steps. Call it outside a snapshot.

    Each step replaces the file, unless something was found broken until then. Without the file it
    looks at the whole log; so it does if the file is of another epoch or of another release of the
    audit. It adds to ``findings``, which have those of ``check_schema`` before. Raises
    ``ProofUnreadableError``.
    """
    with snapshot():
        place, changed = _usable(file, read_head())
    if changed:
        findings.positions.breach(changed, "it was proved, and is not there any more")
    begin, latest, is_last = place.position, file, False
    with TemporaryDirectory(dir=file.parent, prefix=f"{file.name}.") as folder:
        while not is_last:
            with snapshot():
                head = read_head()
                upto = min(head.position, place.position + STEP)
                is_last = upto == head.position
                proved = Proved(place.position, _owners(latest, place) if place.position else ())
                place = place_at(head, upto, place)
                beside = Path(folder) / str(upto)
                with _successor(beside, place) as successor:
                    run_audit(findings, proved, successor.add, None if is_last else upto)
            if latest.parent == Path(folder):
                latest.unlink()
            latest = beside
            if not any(finding.broken for finding in findings):
                latest = beside.replace(file)
    return Audit(head, begin, successor.digest)


def place_at(head: Head, position: int, before: Place = NOWHERE) -> Place:
    """The place of a position. What is up to the place ``before`` is not counted again."""
    last = Event.objects.filter(position=position).first()
    content = _packed(model_to_dict(last) if last else None)
    later = {"position__gt": before.position, "position__lte": position}
    return Place(
        epoch=head.epoch,
        position=position,
        events=before.events + Event.objects.filter(**later).count(),
        signals=before.signals + Signal.objects.filter(**later).count(),
        last=hashlib.sha256(content).hexdigest(),
    )


def _usable(file: Path, head: Head) -> tuple[Place, str]:
    """The place that the file proves, and its event's id if the log has lost what was proved."""
    if not file.exists():
        return NOWHERE, ""
    try:
        place = Place(**next(_lines(file)))
    except (StopIteration, TypeError) as fault:
        raise ProofUnreadableError from fault
    if (place.epoch, place.audit) != (head.epoch, AUDIT):
        return NOWHERE, ""
    if place != place_at(head, place.position):
        return NOWHERE, f"evt_{place.position}"
    return place, ""


def _owners(file: Path, place: Place) -> Iterator[Any]:
    """The rows of each owner at this place. Another audit may have replaced the file meanwhile."""
    lines = _lines(file)
    if next(lines, None) != asdict(place):
        raise ProofUnreadableError
    yield from lines


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
    """The proof that a step writes for the next one."""

    def __init__(self, packed: BufferedIOBase, place: Place) -> None:
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
    """Writes a new file, which is on the disk at the end of the block."""
    number = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(number, "wb") as plain:
        with gzip.GzipFile("", "wb", 1, plain, mtime=0) as packed:
            yield Successor(packed, place)
        plain.flush()
        os.fsync(number)


def _packed(value: object) -> bytes:
    return json.dumps(value, default=_written, sort_keys=True).encode() + b"\n"


def _written(time: datetime) -> dict[str, str]:
    return {"time": time.isoformat()}


def _read(value: dict[str, Any]) -> Any:
    return datetime.fromisoformat(value["time"]) if value.keys() == {"time"} else value
