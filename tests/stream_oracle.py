"""Readers of streams, while everything that decides what they see changes; the list is the oracle.

``follow_all`` runs writers (``tests.stream_writers``) and readers beside a server, and returns what
each reader saw with what the list shows it.
"""

import json
import random
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import httpx2

from tests.client import EVENTS, bearer
from tests.conformance.streams import EVENT, MEDIA_TYPE, Frame, frames_of
from tests.server import ROOT, Server
from tests.stream_writers import BRIEF, END

# What the writers do must have happened, or the readers were not tested.
HAPPENED = {
    *("signal.filled", "card.published", "card.retired", "token.minted", "token.revoked"),
    *("election.made", "election.withdrawn", "desk.connected", "desk.disconnected"),
    *("desk.deactivated", "desk.reactivated"),
}
LEAVES = 0.05  # of the events: the reader closes its connection and comes back
PAUSE = 0.05  # seconds before a reader that was turned away asks again
PATIENCE = 300  # seconds
# Answers that a reader may get between two streams. 502 and 504 are the proxy's.
TURNED_AWAY = {401, 429, 502, 503, 504}


@dataclass(eq=False)
class Follower:
    """A reader that follows its streams until it has seen the end.

    ``name`` is that of its token: a desk's ``userId``, or a platform token's. ``ends`` are the
    reasons for which the service ended its streams. ``saw_its_end`` is whether a stream showed that
    the token with which it was opened was revoked.
    """

    live_url: str
    tokens: dict[str, str]
    name: str
    start: str
    query: dict[str, Any] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)
    streams: int = 0
    is_over: bool = False
    refused: str = ""
    saw_its_end: bool = False

    def follow(self) -> None:
        last, chance = self.start, random.Random(self.name)
        with httpx2.Client(base_url=self.live_url, timeout=60, trust_env=False) as client:
            deadline = time.monotonic() + PATIENCE
            while not self.is_over and not self.refused and time.monotonic() < deadline:
                try:
                    last = self._follow_one(client, last, chance)
                except httpx2.TransportError:
                    time.sleep(PAUSE)

    def _follow_one(self, client: httpx2.Client, last: str, chance: random.Random) -> str:
        """Follows one stream from a cursor until it ends; returns the cursor it came to."""
        token = self.tokens[self.name]
        headers = {**bearer(token), "Accept": MEDIA_TYPE, "Last-Event-ID": last}
        with client.stream("GET", EVENTS, params=self.query, headers=headers) as answer:
            if answer.status_code != 200:
                if answer.status_code not in TURNED_AWAY:
                    self.refused = answer.read().decode()
                time.sleep(PAUSE)
                return last
            self.streams += 1
            try:
                for frame in frames_of(answer.iter_lines()):
                    last = frame.id or last
                    if frame.event == "end":
                        self.ends.append(json.loads(frame.data)["reason"])
                        return last
                    if frame.data:
                        self.seen.append(frame.data)
                        self.saw_its_end |= _revokes(frame, token)
                        self.is_over = f'"name":"{END}"' in frame.data
                        if self.is_over or chance.random() < LEAVES:
                            return last
            except httpx2.TransportError:  # the server or the connection went away
                time.sleep(PAUSE)
        return last

    def listed(self, base_url: str) -> list[str]:
        """What the list shows this reader from the start on, each event as it is written there."""
        texts: list[str] = []
        query = {**self.query, "after": self.start, "limit": 1000}
        while True:
            answer = httpx2.get(
                base_url + EVENTS,
                params=query,
                headers=bearer(self.tokens[self.name]),
                trust_env=False,
                timeout=60,
            )
            texts += EVENT.findall(answer.text)
            query["after"] = answer.json()["next"]
            if not answer.json()["more"]:
                return texts


def _revokes(frame: Frame, token: str) -> bool:
    """Whether the event says that this token was revoked. Hints are the last 4 characters."""
    return frame.event == "token.revoked" and f'{token[-4:]}"' in frame.data


def follow_all(
    server: Server, live_url: str, rounds: int, writers: int = 2
) -> list[tuple[Follower, list[str]]]:
    """Runs readers and writers until every reader has seen the end.

    Returns each reader, with what the list shows it. ``server`` has eight ready desks or more.
    ``live_url`` is the address of the streams. A platform token expires meanwhile, at least once.
    """
    desks = [desk["userId"] for desk in server.seed["desks"][:8]]
    tokens = {desk["userId"]: desk["deskToken"] for desk in server.seed["desks"][:8]}
    tokens |= {"engine": server.seed["platformToken"], "reader": server.seed["readToken"]}
    tokens[BRIEF] = "none yet"
    page = httpx2.get(
        f"{server.base_url}{EVENTS}?order=desc&limit=1",
        headers=bearer(tokens["engine"]),
        trust_env=False,
    )
    start, kinds = page.json()["next"], ["signal.filled", "card.published"]
    brief = Follower(live_url, tokens, BRIEF, start, {"kind": ["card.published"]})
    followers = [
        *(Follower(live_url, tokens, desk, start) for desk in desks),
        Follower(live_url, tokens, "engine", start),
        Follower(live_url, tokens, "reader", start, {"userId": desks[0]}),
        Follower(live_url, tokens, desks[1], start, {"kind": kinds}),
        brief,
    ]
    threads = [threading.Thread(target=each.follow, daemon=True) for each in followers]
    for thread in threads:
        thread.start()
    share = -(-len(desks) // writers)
    shares = [desks[number : number + share] for number in range(0, len(desks), share)]
    pushes, deadline = 0, time.monotonic() + PATIENCE
    with ThreadPoolExecutor(writers) as writing:
        running = [
            writing.submit(_write, server, tokens, seed, rounds, mine)
            for seed, mine in enumerate(shares)
        ]

        def is_over() -> bool:
            if not all(writer.done() for writer in running):
                return False
            for writer in running:
                writer.result()
            return "token_ended" in brief.ends or time.monotonic() > deadline

        while not is_over():
            pushes += _fan_out(server, tokens["engine"], f"oracle-{pushes}-{time.monotonic_ns()}")
    _write(server, tokens, 0, 0, desks)
    for thread in threads:
        thread.join(PATIENCE)
    return [(each, each.listed(server.base_url)) for each in followers]


def assert_complete(followed: list[tuple[Follower, list[str]]]) -> None:
    """Each reader saw what the list shows, and nothing after its token's end."""
    for follower, listed in followed:
        assert follower.refused == ""
        assert follower.seen == listed, f"{follower.name}: {_differing(follower.seen, listed)}"
        assert follower.is_over
        assert not follower.saw_its_end
    *_, (brief, _) = followed
    assert "token_ended" in brief.ends
    kinds = {json.loads(text)["kind"] for _, listed in followed for text in listed}
    assert kinds >= HAPPENED


def _differing(seen: list[str], listed: list[str]) -> object:
    """The events of only one of the two, or why there are none."""
    return set(seen) ^ set(listed) or "an event twice, or in another order"


def _fan_out(server: Server, token: str, nonce: str) -> bool:
    """Sends a fan-out of the published card. Returns whether it was accepted."""
    card = httpx2.get(f"{server.base_url}/api/hooks/signal", trust_env=False, timeout=60).json()
    elected = {name: card["publishedCard"][name] for name in ("pair", "direction")}
    body = {**elected, "source": "floor", "fanout": True, "elected": True, "nonce": nonce}
    answer = httpx2.post(
        f"{server.base_url}/api/hooks/signal",
        json=body,
        headers=bearer(token),
        trust_env=False,
        timeout=60,
    )
    return answer.status_code == 200


def _write(
    server: Server, tokens: dict[str, str], seed: int, rounds: int, user_ids: list[str]
) -> None:
    """Runs a writer's process until it ends, and notes the tokens that it prints.

    It waits as long as it must, whatever the server does: an error would end it.
    """
    command = [sys.executable, "-m", "tests.stream_writers", str(seed), str(rounds), *user_ids]
    environment = {**server.environment, "PATIENCE": "on"}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout
        for line in writer.stdout:
            minted = json.loads(line)
            tokens[minted["reader"]] = minted["token"]
    assert writer.returncode == 0
