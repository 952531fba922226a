"""The client of engines, ``signals/client/``, as a wheel that pip installs from this service.

So whoever writes an engine needs neither this repository nor a package index for it, and gets the
client that fits the service.
"""

import base64
import functools
import hashlib
import io
import zipfile
from pathlib import Path

from django.http import HttpRequest, HttpResponse

from events.http.web_pages import page
from signals import client

PACKAGE, VERSION = "signals_client", "0.1.0"
FILE = f"{PACKAGE}-{VERSION}-py3-none-any.whl"
METADATA = f"""\
Metadata-Version: 2.1
Name: signals-client
Version: {VERSION}
Summary: A client of the Signal Intermediary Service, for engines
Requires-Python: >=3.11
Requires-Dist: httpx2>=2.16,<2.17
"""
TAGS = """\
Wheel-Version: 1.0
Generator: signal-intermediary-service
Root-Is-Purelib: true
Tag: py3-none-any
"""


@functools.cache
def wheel() -> bytes:
    """Returns the wheel: a ZIP file, the same bytes in every process."""
    sources = sorted(Path(client.__file__).parent.glob("*.py"))
    about = f"{PACKAGE}-{VERSION}.dist-info"
    files = {f"{PACKAGE}/{source.name}": source.read_bytes() for source in sources}
    files |= {f"{about}/METADATA": METADATA.encode(), f"{about}/WHEEL": TAGS.encode()}
    record = [f"{name},sha256={_digest(content)},{len(content)}" for name, content in files.items()]
    files[f"{about}/RECORD"] = "\n".join([*record, f"{about}/RECORD,,", ""]).encode()
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return made.getvalue()


def _digest(content: bytes) -> str:
    digest = hashlib.sha256(content).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


@page("GET")
def client_wheel(request: HttpRequest) -> HttpResponse:
    """GET /client/…: the wheel. Public."""
    return HttpResponse(wheel(), content_type="application/octet-stream")
