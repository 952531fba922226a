"""The guarded HTTP client: sends to public addresses only, with one limit for everything.

It is a thin layer over the connections of httpcore2, below httpx2. So there is no code that could
follow a redirect, keep a cookie, unpack a body, or read a proxy or a password from the environment.
"""

import asyncio
import functools
import ssl
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import httpcore2

from signals.outbound.addresses import (
    Address,
    ForbiddenURL,
    Target,
    as_address,
    check_url,
    is_open,
)
from signals.outbound.answers import Answer, Fault, retry_after
from signals.outbound.resolver import Lookup, Resolver, look_up

TIMEOUT = 10.0  # seconds for resolving, connecting, sending and the answer together
CONNECT_TIMEOUT = 3.0  # seconds for one of several addresses
KEEP_ALIVE = 55.0  # seconds that an idle connection is kept
KEPT_BODY = 1024  # bytes of an answer that are read and kept
BESIDE_BODY = 128 * 1024  # bytes of an answer that are read beside them, interim answers included
HEADERS = (("User-Agent", "Signal-Intermediary-Service"), ("Content-Type", "application/json"))
# What an endpoint that has closed a kept connection causes: the message is then sent on a new one.
CLOSED = (httpcore2.ReadError, httpcore2.WriteError, httpcore2.RemoteProtocolError)


class _ForbiddenAddressError(httpcore2.ConnectError):
    """One of the name's addresses is forbidden."""


class _NameError(httpcore2.ConnectError):
    """The name has no address."""


class _BoundedStream(httpcore2.AsyncNetworkStream):
    """A stream on which at most so many bytes answer each message.

    Before its answer, an endpoint may send any number of interim ones (status 1xx).
    """

    def __init__(self, stream: httpcore2.AsyncNetworkStream, most: int) -> None:
        self._stream, self._most, self._left = stream, most, most

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if not self._left:
            raise httpcore2.NetworkError  # none of CLOSED, after which a message is sent again
        found = await self._stream.read(min(max_bytes, self._left), timeout)
        self._left -= len(found)
        return found

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._left = self._most  # a message is written whole before its answer is read
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        stream = await self._stream.start_tls(ssl_context, server_hostname, timeout)
        return _BoundedStream(stream, self._most)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class GuardedBackend(httpcore2.AsyncNetworkBackend):
    """Connects to an address that was checked, never to a name.

    The name is resolved once for each connection, and refused if any of its addresses is forbidden.
    The TLS handshake still names and verifies the host. At most ``most`` bytes answer a message.
    """

    def __init__(self, resolver: Resolver, *, usual: bool, most: int) -> None:
        self._resolver, self._usual, self._most = resolver, usual, most
        self._backend = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        addresses = await self._checked_addresses(host, port)
        for address in addresses[:-1]:
            with suppress(httpcore2.ConnectError, httpcore2.ConnectTimeout):
                stream = await self._backend.connect_tcp(str(address), port, CONNECT_TIMEOUT)
                break
        else:
            stream = await self._backend.connect_tcp(str(addresses[-1]), port, timeout)
        return _BoundedStream(stream, self._most)

    async def _checked_addresses(self, host: str, port: int) -> list[Address]:
        literal = as_address(host)
        try:
            found = [literal] if literal else await self._resolver.resolve(host, port)
        except OSError:
            raise _NameError from None
        if not all(is_open(address, usual=self._usual) for address in found):
            raise _ForbiddenAddressError
        if not found:
            raise _NameError
        return found


class Endpoint:
    """One URL and the one connection to it, which is kept between messages.

    It belongs to one event loop and sends one message at a time. ``keep`` is how many bytes of an
    answer are read and kept.
    """

    def __init__(self, url: str, resolver: Resolver, context: ssl.SSLContext, keep: int) -> None:
        self._resolver, self._context, self._keep = resolver, context, keep
        self._connection: httpcore2.AsyncHTTPConnection | None = None
        self._target = _checked(url)

    @property
    def host(self) -> str:
        """The name or the address of the host; empty if nothing is sent to it."""
        return self._target.host if self._target else ""

    async def close(self) -> None:
        """Ends the connection. The next message opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.aclose()

    async def send(self, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Sends a POST of JSON once. Never raises for what the other side does."""
        if self._target is None:
            return Answer(error=Fault.FORBIDDEN)
        started = time.monotonic()
        try:
            async with asyncio.timeout(TIMEOUT):
                answer = await self._try(self._target, body, headers)
        except FAILURES as error:
            answer = Answer(error=_fault_of(error))
            await self.close()
        return replace(answer, seconds=time.monotonic() - started)

    async def _try(self, target: Target, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Sends on the kept connection, and on a new one if the endpoint has closed that."""
        kept = self._connection
        if kept is not None and not kept.is_closed() and not kept.has_expired():
            with suppress(*CLOSED):
                return await self._exchange(kept, target, body, headers)
        await self.close()
        self._connection = httpcore2.AsyncHTTPConnection(
            origin=_url(target).origin,
            ssl_context=self._context,
            keepalive_expiry=KEEP_ALIVE,
            network_backend=GuardedBackend(
                self._resolver, usual=target.is_usual, most=self._keep + BESIDE_BODY
            ),
        )
        return await self._exchange(self._connection, target, body, headers)

    async def _exchange(
        self,
        connection: httpcore2.AsyncHTTPConnection,
        target: Target,
        body: bytes,
        headers: Mapping[str, str],
    ) -> Answer:
        """Sends the message and reads the beginning of the answer.

        An answer that breaks off before that is none, whatever its status.
        """
        given = [("Host", target.authority), *HEADERS, *headers.items()]
        async with connection.stream("POST", _url(target), headers=given, content=body) as answer:
            try:
                start = await self._start_of(answer)
            except CLOSED as error:  # the endpoint has the message: it is not sent again now
                raise httpcore2.NetworkError from error
        return Answer(answer.status, None, retry_after(answer.headers), start)

    async def _start_of(self, answer: httpcore2.Response) -> bytes:
        """Reads until the beginning is there, or the end if that has arrived with it."""
        is_whole = _has_length(answer, self._keep)
        start = b""
        async for chunk in answer.aiter_stream():
            start += chunk
            if len(start) > self._keep or (len(start) == self._keep and not is_whole):
                break  # the rest is not read; this ends the connection
        return start[: self._keep]


# What the other side may do. The rest is an error of ours.
FAILURES = (
    httpcore2.TimeoutException,
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    OSError,
)


def _fault_of(error: Exception) -> Fault:
    match error:
        case TimeoutError() | httpcore2.TimeoutException():
            return Fault.TIMEOUT
        case _ForbiddenAddressError():
            return Fault.FORBIDDEN
        case _NameError():
            return Fault.DNS
        case httpcore2.ConnectError():
            return Fault.TLS if isinstance(error.__cause__, ssl.SSLError) else Fault.CONNECT
    return Fault.BROKEN


class Client:
    """Makes endpoints that share one resolver. It belongs to one event loop."""

    def __init__(self, lookup: Lookup = look_up, context: ssl.SSLContext | None = None) -> None:
        self._resolver = Resolver(lookup)
        self._context = context or _usual_context()

    def endpoint(self, url: str, *, keep: int = KEPT_BODY) -> Endpoint:
        return Endpoint(url, self._resolver, self._context, keep)

    async def send(self, url: str, body: bytes, *, keep: int = KEPT_BODY) -> Answer:
        """Sends one POST on a connection of its own."""
        endpoint = self.endpoint(url, keep=keep)
        try:
            return await endpoint.send(body, {})
        finally:
            await endpoint.close()


@functools.cache
def _usual_context() -> ssl.SSLContext:
    """Verifies certificates with the authorities of the system. Reading them takes long."""
    return httpcore2.default_ssl_context()


def _checked(url: str) -> Target | None:
    try:
        return check_url(url)
    except ForbiddenURL:
        return None


def _has_length(answer: httpcore2.Response, length: int) -> bool:
    """Whether the head of an answer says that its body has this length."""
    said = [value for name, value in answer.headers if name.lower() == b"content-length"]
    return said == [b"%d" % length]


def _url(target: Target) -> httpcore2.URL:
    """The checked URL in parts, so that nobody reads its text again."""
    return httpcore2.URL(
        scheme=target.scheme.encode(),
        host=target.host.encode(),
        port=target.port,
        target=target.path.encode(),
    )
