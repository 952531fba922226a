"""Measures lists, and how growth affects them. Each function gives some lines of the table."""

import statistics
import time
from collections.abc import Iterator

import httpx2

from events.http.cursors import log_cursor, scan_cursor
from tests.bench import growth, load
from tests.bench.line import BARE, Effort, Line, a_second, rates, ratio
from tests.server import Server, serving_beside

ROWS_A_PAGE = 1000


def pulls(server: Server, effort: Effort) -> Iterator[Line]:
    """The desk list, and its deep pages."""
    with serving_beside(server, **BARE) as beside:
        last = growth.START + effort.desks - ROWS_A_PAGE
        epoch, head = _head(server)
        at_the_end = scan_cursor("desks", epoch, head, last)
        measured = load.interleaved(
            {
                "ours": load.read(server, "/api/v1/desks"),
                "serializer": load.Load(f"{beside.base_url}/desks?after={growth.START}"),
                "last": load.read(server, "/api/v1/desks", after=at_the_end),
                "ready=0": load.read(server, "/api/v1/desks", ready=0),
                "connected=0": load.read(server, "/api/v1/desks", connected=0),
            },
            effort,
            2,
        )
    per_page = {name: [1 / one.rate for one in rounds] for name, rounds in measured.items()}
    rows = statistics.median(rates(measured["ours"])) * ROWS_A_PAGE
    yield Line(
        "desk pull, 1,000 a page ÷ a ModelSerializer (rows a second)",
        ratio(rates(measured["ours"]), rates(measured["serializer"])),
        least=3.5,
        note=f"{rows:,.0f} rows/s",
    )
    yield Line(
        f"walking {effort.desks:,} desks: last page ÷ first (time)",
        ratio(per_page["last"], per_page["ours"]),
        most=1.2,
    )
    for name in ("ready=0", "connected=0"):
        yield Line(
            f"{name} over {effort.desks:,} desks of which none is ÷ a full page (time)",
            ratio(per_page[name], per_page["ours"]),
            most=1.2,
        )
    yield Line(
        f"pulling all {effort.desks:,} desks, page by page (seconds)", _walk(server, effort.desks)
    )


def feeds(server: Server, effort: Effort) -> Iterator[Line]:
    """Reading the feed at its beginning and at its end."""
    epoch, head = _head(server)
    # Both pages are among the inserted events, so that they hold the same.
    begin = log_cursor(epoch, head - effort.events + effort.desks)
    end = log_cursor(epoch, head - 20 * ROWS_A_PAGE)
    feed, desk = "/api/v1/events", {"userId": growth.FEED_OF}
    measured = load.interleaved(
        {
            "platform, begin": load.read(server, feed, after=begin),
            "platform, end": load.read(server, feed, after=end),
            "one desk, begin": load.read(server, feed, after=begin, **desk),
            "one desk, end": load.read(server, feed, after=end, **desk),
        },
        effort,
        2,
    )
    for reader in ("platform", "one desk"):
        yield Line(
            f"feed of {effort.events:,} events, 1,000 a page, {reader}: end ÷ beginning (time)",
            ratio(rates(measured[f"{reader}, begin"]), rates(measured[f"{reader}, end"])),
            most=1.2,
            note=f"{statistics.median(rates(measured[f'{reader}, end'])):,.0f} pages/s",
        )


def grown_to_small(small: Server, grown: Server, effort: Effort) -> Iterator[Line]:
    """Every load on the large service, compared with the small one."""
    kinds = {
        "deploy": load.deploy,
        "signed push": load.push,
        "fan-out": load.fan_out,
        "refusal": load.bad_checksum,
        "desk pull": lambda server: load.read(server, "/api/v1/desks"),
        "feed": lambda server: load.read(server, "/api/v1/events"),
    }
    for name, kind in kinds.items():
        measured = load.interleaved({"small": kind(small), "grown": kind(grown)}, effort)
        yield Line(
            f"{name} at {effort.desks:,} desks and {effort.events:,} events ÷ at 1,000 and none",
            ratio(rates(measured["grown"]), rates(measured["small"])),
            least=0.9,
            note=a_second(measured["grown"]),
        )


def _head(server: Server) -> tuple[str, int]:
    with growth.connect(server) as connection:
        row = connection.execute("SELECT epoch, position FROM events_head").fetchone()
    assert row
    return row[0], row[1]


def _walk(server: Server, desks: int) -> float:
    """The seconds that an engine takes to pull all desks over one connection."""
    seen, following = 0, None
    began = time.perf_counter()
    headers = load.bearer(server.seed["platformToken"])
    with httpx2.Client(headers=headers, trust_env=False, timeout=30) as engine:
        while following or not seen:
            after = {"after": following} if following else {}
            page = engine.get(
                f"{server.base_url}/api/v1/desks", params={"limit": ROWS_A_PAGE, **after}
            ).json()
            seen, following = seen + len(page["desks"]), page["next"]
    assert seen >= desks
    return time.perf_counter() - began
