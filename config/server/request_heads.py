"""How both servers read the head of a request: by gunicorn's parser, with the same bounds."""

from types import SimpleNamespace
from typing import Any

from gunicorn.config import Config
from gunicorn.http import wsgi
from gunicorn.http.errors import LimitRequestHeaders, NoMoreData
from gunicorn.http.message import Request
from gunicorn.http.unreader import IterUnreader

Environ = dict[str, Any]  # as in WSGI

SETTINGS = {
    # The longest valid path, a feed with every filter, is far shorter. A longer line is a 414.
    "limit_request_line": 4094,
    # Browsers and proxies send about 30 headers; five signatures take 350 bytes.
    "limit_request_fields": 64,
    "limit_request_field_size": 8190,
    # gunicorn trusts no proxy. TRUSTED_PROXIES alone decides.
    "forwarded_allow_ips": "",
    # A header with an underscore could imitate one with a hyphen.
    "header_map": "drop",
    # Never the parser in C (gunicorn_h1c), which gunicorn would use wherever it is installed.
    # Version 0.6.9 ends a header at a line feed alone, where a proxy may not. It answers 500 to a
    # folded header and to an unknown transfer coding.
    "http_parser": "python",
}
MAX_HEAD = 64 * 1024  # bytes that are kept of a head without an end

_config = Config()
for _name, _value in SETTINGS.items():
    _config.set(_name, _value)

# In place of a socket: no client is asked for a body, which nothing reads.
_NO_SOCKET = SimpleNamespace(send=lambda sent: None)


def environ_of(head: bytes, client: tuple[str, int], server: tuple[str, int]) -> Environ | None:
    """The request that begins with these bytes, as gunicorn gives it to Django.

    None if its head has no end yet: it is read once, not with every part that comes. Raises
    ``ParseException`` for what is no request. Nothing that follows the head is read.
    """
    if b"\r\n\r\n" not in head and len(head) <= MAX_HEAD:
        return None
    try:
        request = Request(_config, IterUnreader([head]), client)
    except NoMoreData:
        raise LimitRequestHeaders("the head has no end") from None
    _, environ = wsgi.create(request, _NO_SOCKET, client, server, _config)
    return dict(environ)
