"""Responses to bytes that are not a valid HTTP request (contract, section 5).

gunicorn and the live server send them before Django runs. The OpenAPI document lists them.
"""

from config.middleware import security_headers

DETAIL = "This is not a request that the server reads."
REASONS = {
    400: "Bad Request",
    414: "URI Too Long",
    417: "Expectation Failed",
    431: "Request Header Fields Too Large",
    501: "Not Implemented",
}


def answer(status: int) -> bytes:
    """Returns the whole response for a status of ``REASONS``. It repeats nothing of the request."""
    body = f"{REASONS[status]}. {DETAIL}\n".encode()
    headers = {
        **security_headers.HEADERS,
        "Cache-Control": "no-store",
        "Connection": "close",
        "Content-Type": "text/plain; charset=utf-8",
        "Content-Length": str(len(body)),
    }
    lines = [f"HTTP/1.1 {status} {REASONS[status]}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("ascii") + body
