"""The application that gunicorn serves."""

import os
from typing import Any

import django
from django.core.handlers.wsgi import WSGIHandler, WSGIRequest
from django.urls import get_resolver

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")


class PlainRequest(WSGIRequest):
    """A request whose text is UTF-8 and whose media type is a name, whatever else it says of it.

    Among the charsets that can be named are some that are no text encodings: the framework would
    fail on them before any middleware.
    """

    def _set_content_type_params(self, meta: dict[str, Any]) -> None:
        self.content_type = meta.get("CONTENT_TYPE", "").partition(";")[0].strip().lower()
        self.content_params = {}


class Application(WSGIHandler):
    request_class = PlainRequest


django.setup(set_prefix=False)
application = Application()
# Every view and what it imports is there before the first request comes, which would wait for it.
assert get_resolver().url_patterns
