"""The ASGI application of the live server: the feed, for as many readers as the machine holds.

Requests are checked and readers catch up in two small pools of threads, which work for a bounded
number at a time, in the order of arrival. Once a reader has caught up, it is a connection and its
entries in the hub: no task, no thread, no database connection.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http import HTTPStatus
from typing import Any, cast

from django.db import close_old_connections

from config.live.connections import Connection
from config.live.door import LiveDoor, LiveReader
from config.live.requests import PROBES, Answer, Scope, respond
from config.problems import to_refusal
from events.live.hub import hub
from events.live.opening import Opening

Send = Callable[[dict[str, Any]], Awaitable[None]]
CLOSE = (b"connection", b"close")


class LiveApplication:
    """The application. ``threads`` is the number of database connections that it may use."""

    def __init__(self, *, seats: int, threads: int) -> None:
        self._seats = seats
        each = max(1, threads // 2)
        self._checking = ThreadPoolExecutor(each, thread_name_prefix="checking")
        self._catching_up = ThreadPoolExecutor(each, thread_name_prefix="catching-up")
        self._probing = ThreadPoolExecutor(1, thread_name_prefix="probing")
        self._door: LiveDoor | None = None

    async def __call__(self, scope: Scope, receive: object, send: Send) -> None:
        loop = asyncio.get_running_loop()
        self._door = self._door or LiveDoor(loop, self._seats)
        pool = self._probing if scope["path"] in PROBES else self._checking
        connection: Connection = scope["connection"]
        answer = await loop.run_in_executor(pool, _answered, connection, scope, self._door)
        if answer is None:
            return
        if answer.opening is None:
            await _send(send, answer)
        elif connection.is_lost:
            hub.dismiss(answer.opening.reader)
        else:
            await self._stream(connection, answer, answer.opening)

    async def _stream(self, connection: Connection, answer: Answer, opening: Opening) -> None:
        """Begins the stream and catches up. From then on the hub feeds the reader."""
        reader = cast(LiveReader, opening.reader)  # of ``self._door``
        connection.become(reader, _head(connection, answer) + answer.body)
        if answer.is_behind:
            await self._catch_up(reader, opening)

    async def _catch_up(self, reader: LiveReader, opening: Opening) -> None:
        loop = asyncio.get_running_loop()
        await reader.taken()
        while not reader.is_over:
            try:
                page = await loop.run_in_executor(self._catching_up, partial(_read, opening))
            except Exception as error:  # the reader comes back, and may be refused then
                to_refusal(error)  # logs it
                reader.close()
                return
            if page is None:
                return
            reader.write(page)
            await reader.taken()
        reader.close()


def _answered(connection: Connection, scope: Scope, door: LiveDoor) -> Answer | None:
    """The answer to a request. None if the client left while the request waited for a thread."""
    return None if connection.is_lost else respond(scope, door)


def _read(opening: Opening) -> bytes | None:
    try:
        return opening.read()
    finally:
        close_old_connections()


async def _send(send: Send, answer: Answer) -> None:
    await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
    await send({"type": "http.response.body", "body": answer.body})


def _head(connection: Connection, answer: Answer) -> bytes:
    """The head of a stream. It has no length and no chunks: its end is that of the connection."""
    status = f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}".encode()
    headers = [*connection.server_state.default_headers, *answer.headers, CLOSE]
    lines = [status, *(b"%b: %b" % header for header in headers)]
    return b"\r\n".join([*lines, b"", b""])
