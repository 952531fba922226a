"""What listens on loopback: endpoints that answer as told, and ports where nothing may arrive."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from signals.client.webhooks import verify_webhook, webhook_answer

LOOPBACK = "127.0.0.1"
OTHER_LOOPBACK = "127.0.0.2"


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    body: bytes


# Writes the whole answer to the connection.
Reply = Callable[[BaseHTTPRequestHandler, Request], object]


@dataclass
class Heard:
    """What an endpoint heard: requests in order, and the number of connections.

    ``answer`` may be replaced while it listens.
    """

    answer: Reply
    port: int = 0
    requests: list[Request] = field(default_factory=list)
    connections: int = 0

    def url(self, path: str = "/", *, host: str = LOOPBACK, scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"


def reply(status: int = 204, body: bytes = b"", **headers: str) -> Reply:
    """The answer with this status, body and headers."""

    def write(handler, request):
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return write


def taking(secret: str) -> Reply:
    """Answers as the shipped client does: to a test with the proof that it knows the secret."""

    def write(handler, request):
        message = verify_webhook(request.body, request.headers, secret)
        reply(200, webhook_answer(message, secret))(handler, request)

    return write


@contextmanager
def endpoint(
    answer: Reply | None = None, *, address: str = LOOPBACK, context: ssl.SSLContext | None = None
) -> Iterator[Heard]:
    """Listens on a free port of this address until the block ends."""
    heard = Heard(answer or reply())

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def setup(self):
            heard.connections += 1
            super().setup()

        def do_POST(self):
            length = int(self.headers["Content-Length"])
            body = self.rfile.read(length)
            if len(body) < length:  # the sender was killed: this was no message
                return
            request = Request(self.path, {k.lower(): v for k, v in self.headers.items()}, body)
            heard.requests.append(request)
            with suppress(OSError):
                heard.answer(self, request)

        def log_message(self, *_):
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 512

        def handle_error(self, *_):
            pass

        def server_bind(self):  # without the look-up of the host's name
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.socket.bind(self.server_address)
            self.server_name, self.server_port = self.socket.getsockname()[:2]

    server = Server((address, 0), Handler)
    if context:
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    heard.port = server.server_port
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield heard
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def silent_port() -> Iterator[tuple[int, list[bytes]]]:
    """A port of loopback, in both families, and a list of what arrived there: one entry each."""
    arrived: list[bytes] = []
    with socket.socket() as four, socket.socket(socket.AF_INET6) as six:
        four.bind((LOOPBACK, 0))
        port = four.getsockname()[1]
        listeners = [four]
        with suppress(OSError):  # a machine without IPv6
            six.bind(("::1", port))
            listeners.append(six)
        for listener in listeners:
            listener.listen()
            threading.Thread(target=_accept, args=(listener, arrived), daemon=True).start()
        yield port, arrived
        for listener in listeners:
            listener.shutdown(socket.SHUT_RDWR)


def _accept(listener: socket.socket, arrived: list[bytes]) -> None:
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            arrived.append(b"connected")
            connection.close()


def certificate_for(name: str, folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's context with a certificate for this name, and a client's that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    unencrypted = serialization.NoEncryption()
    form = serialization.PrivateFormat.PKCS8
    file = folder / "certificate.pem"
    file.write_bytes(pem + key.private_bytes(serialization.Encoding.PEM, form, unencrypted))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(file)
    return server, ssl.create_default_context(cadata=pem.decode())
