"""The faults. Each function causes one and returns when it was over, on the monotonic clock.

A fault is over when the failed server was started again, or at once if the service must recover by
itself.
"""

import io
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import time
from contextlib import suppress
from urllib.parse import urlsplit

import httpx2

from tests.client import HOOK, signed, written
from tests.drills.clients import Book, Bot, Client, Engine, note, push_of
from tests.drills.stage import Stage, wait_until

BUSY = 8  # processes for each core
HANG_UPS = 10  # clients of each kind
BLOCK = 1 << 20  # bytes
ATTEMPTS = 5  # to sign in
UNAVAILABLE = httpx2.codes.SERVICE_UNAVAILABLE
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close with a reset
SENDERS = (Bot.__name__, Engine.__name__)
CUT = """SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = 'signals' AND pid <> pg_backend_pid()"""


def a_worker_is_killed(stage: Stage, book: Book) -> float:
    os.kill(random.choice(stage.web.workers()), signal.SIGKILL)
    return time.monotonic()


def the_arbiter_is_killed(stage: Stage, book: Book) -> float:
    """gunicorn is started again a second later."""
    os.kill(stage.web.pid, signal.SIGKILL)
    stage.web.revive()
    return time.monotonic()


def postgresql_is_down(stage: Stage, book: Book) -> float:
    """Without a shutdown, as if the power failed. It recovers when it starts again."""
    stage.postgresql.stop()
    time.sleep(stage.away)
    stage.postgresql.start()
    return time.monotonic()


def connections_are_cut(stage: Stage, book: Book) -> float:
    stage.postgresql.execute(CUT)
    return time.monotonic()


def the_machine_is_busy(stage: Stage, book: Book) -> float:
    """Many processes compute beside the service. Signals are answered late, and none with 503."""
    began = time.monotonic()
    others = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(BUSY * (os.cpu_count() or 1))
    ]
    time.sleep(stage.away)
    for other in others:
        other.kill()
        other.wait()
    since = [answer for answer in book.answers if answer.at > began and answer.what in SENDERS]
    if any(answer.status == UNAVAILABLE for answer in since):
        book.odd.append("a signal got 503 while the machine was only busy")
    return time.monotonic()


def redis_is_down(stage: Stage, book: Book) -> float:
    """Signals are still accepted. Only signing in answers 503, without delay."""
    stage.redis.end(signal.SIGKILL)
    _without_redis(stage, book)
    stage.redis.start()
    return time.monotonic()


def redis_hangs(stage: Stage, book: Book) -> float:
    """Redis accepts connections but does not answer."""
    os.kill(stage.redis.pid, signal.SIGSTOP)
    _without_redis(stage, book)
    os.kill(stage.redis.pid, signal.SIGCONT)
    return time.monotonic()


def _without_redis(stage: Stage, book: Book) -> None:
    began = time.monotonic()
    sign_in_while_redis_is_down(stage, book)
    time.sleep(max(0, began + stage.away - time.monotonic()))
    since = [answer for answer in book.answers if answer.at > began]
    if any(answer.status != httpx2.codes.OK for answer in since if answer.what in SENDERS):
        book.odd.append("a signal was not accepted while only Redis was down")


def sign_in_while_redis_is_down(stage: Stage, book: Book) -> None:
    """A busy machine may delay an answer, and does not delay all of them."""
    customer = stage.cast["customers"][0]
    for _ in range(ATTEMPTS):
        with httpx2.Client(base_url=stage.base_url, trust_env=False) as http:
            http.get("/accounts/login/")
            form = {name: customer[name] for name in ("login", "password")}
            token = {"csrfmiddlewaretoken": http.cookies["csrf"]}
            answer = http.post("/accounts/login/", data=form | token)
        if answer.status_code != UNAVAILABLE:
            break
        if answer.elapsed.total_seconds() <= 2:
            return
    book.odd.append(f"signing in without Redis: {answer.status_code} after {answer.elapsed}")


def the_disk_is_full(stage: Stage, book: Book) -> float:
    """No space is left for a while. If PostgreSQL stops, it is started again."""
    assert stage.disk is not None
    began = time.monotonic()
    ballast = stage.disk / "ballast"
    with ballast.open("ab", buffering=0) as file:
        wait_until(lambda: _fill(file) and _refused_since(began, book), "a full disk")
        time.sleep(stage.away)
    ballast.unlink()
    return stage.postgresql.recover()


def _fill(file: io.FileIO) -> bool:
    """Uses all the space that is left."""
    with suppress(OSError):
        while True:
            file.write(bytes(BLOCK))
    with suppress(OSError):
        while True:
            file.write(bytes(1))
    return True


def _refused_since(began: float, book: Book) -> bool:
    return any(answer.at > began and answer.status == UNAVAILABLE for answer in book.answers)


def the_server_is_reloaded(stage: Stage, book: Book) -> float:
    before = stage.web.workers()
    os.kill(stage.web.pid, signal.SIGHUP)
    return wait_until(lambda: not set(before) & set(stage.web.workers()), "the reload")


def the_server_is_stopped(stage: Stage, book: Book) -> float:
    """gunicorn finishes its requests and is started again."""
    stage.web.end(signal.SIGTERM)
    stage.web.start()
    return time.monotonic()


def clients_hang_up(stage: Stage, book: Book) -> float:
    """Clients disconnect in the middle of the body, and before the answer. The latter retry."""
    for number in range(HANG_UPS):
        bot = random.choice(stage.cast["customers"])
        _hang_up(stage, book, bot, reset=bool(number % 2))
        _do_not_listen(stage, book, bot, reset=bool(number % 2))
    return time.monotonic()


def _hang_up(stage: Stage, book: Book, bot: dict[str, str], *, reset: bool) -> None:
    body = push_of(bot)
    book.cut.add(body["nonce"])
    request = _request(stage, bot, written(body))
    _send_and_leave(stage, request[:-20], reset=reset)


def _do_not_listen(stage: Stage, book: Book, bot: dict[str, str], *, reset: bool) -> None:
    body = push_of(bot)
    raw = written(body)
    book.sent.add(body["nonce"])
    _send_and_leave(stage, _request(stage, bot, raw), reset=reset)
    client = Client(stage.web.base_url, book)
    with httpx2.Client(base_url=stage.web.base_url, trust_env=False, timeout=60) as client.http:
        answer = client.ask("POST", HOOK, lambda: signed(bot["secret"], body=raw), content=raw)
        note(book, answer, body["nonce"], client)


def _request(stage: Stage, bot: dict[str, str], raw: bytes) -> bytes:
    headers = {
        "Host": urlsplit(stage.web.base_url).netloc,
        "Content-Length": str(len(raw)),
        **signed(bot["secret"], body=raw),
    }
    lines = [f"POST {HOOK} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode() + raw


def _send_and_leave(stage: Stage, request: bytes, *, reset: bool) -> None:
    parts = urlsplit(stage.web.base_url)
    with socket.create_connection((parts.hostname, parts.port)) as line:
        line.sendall(request)
        if reset:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)


# These let the server finish its requests, so that no client has to retry.
GRACEFUL = (the_server_is_reloaded, the_server_is_stopped)
