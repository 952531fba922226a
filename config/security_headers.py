"""The security headers of every response, and the responses to what is not an HTTP request.

gunicorn and the live server send the latter before Django runs (contract, section 5). The OpenAPI
document lists them.
"""

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; manifest-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)

# Features of browsers that no page uses. Passkeys and writing to the clipboard stay allowed.
PERMISSIONS_POLICY = (
    "accelerometer=(), autoplay=(), browsing-topics=(), camera=(), clipboard-read=(), "
    "display-capture=(), encrypted-media=(), fullscreen=(), geolocation=(), gyroscope=(), "
    "hid=(), idle-detection=(), local-fonts=(), magnetometer=(), microphone=(), midi=(), "
    "payment=(), picture-in-picture=(), screen-wake-lock=(), serial=(), usb=(), "
    "xr-spatial-tracking=()"
)

HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": PERMISSIONS_POLICY,
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

DETAIL = "This is not a request that the server reads."
REASONS = {
    400: "Bad Request",
    414: "URI Too Long",
    417: "Expectation Failed",
    431: "Request Header Fields Too Large",
    501: "Not Implemented",
}


def answer_to_no_request(status: int) -> bytes:
    """Returns the whole response for a status of ``REASONS``. It repeats nothing of the request."""
    body = f"{REASONS[status]}. {DETAIL}\n".encode()
    headers = {
        **HEADERS,
        "Cache-Control": "no-store",
        "Connection": "close",
        "Content-Type": "text/plain; charset=utf-8",
        "Content-Length": str(len(body)),
    }
    lines = [f"HTTP/1.1 {status} {REASONS[status]}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("ascii") + body
