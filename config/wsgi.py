"""The WSGI application."""

import gc
import os
from typing import Any

import django
from django.core.handlers.wsgi import WSGIHandler, WSGIRequest
from django.urls import get_resolver, reverse

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")


class SanitizedRequest(WSGIRequest):
    """A request that is always read as UTF-8. Parameters of its Content-Type are ignored.

    Python has codecs that are not text encodings. Named as the charset, they would make Django fail
    before any middleware runs.
    """

    def _set_content_type_params(self, meta: dict[str, Any]) -> None:
        self.content_type = meta.get("CONTENT_TYPE", "").partition(";")[0].strip().lower()
        self.content_params = {}


class Application(WSGIHandler):
    request_class = SanitizedRequest


# Hardly anything is garbage while the service loads: to look for it took an eighth of the start.
gc.disable()
django.setup(set_prefix=False)
application = Application()
# Import all views and index their names now: the first request must not wait for it, least of all
# under the log's lock.
urlpatterns = get_resolver().url_patterns
reverse("home")
# What is loaded now stays. To look at it again, a full collection held up all threads for 88 ms,
# and lists of the feed began one each twenty pages.
gc.freeze()
gc.enable()
