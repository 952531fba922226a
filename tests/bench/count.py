"""Counts the SQL statements of a request, including BEGIN and COMMIT.

Reads a JSON object of loads from standard input, as the keywords of ``load.Load``, and prints the
counts. Run in the environment of a server, whose database it asks.
"""

import json
import sys

import django
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.bench.load import Load


def count(load: Load) -> int:
    """The statements of the second request. The first one also records the use of the token."""
    for line in list(load.lines(2)):
        *signed, body = line.split("\t")
        headers = {**load.headers, **dict(zip(load.signing_headers, signed, strict=True))}
        path = "/" + load.url.split("/", 3)[3]
        with CaptureQueriesContext(connection) as queries:
            Client(headers={**headers, "Host": "127.0.0.1"}).post(
                path, body, content_type="application/json"
            )
    return len(queries)


if __name__ == "__main__":
    django.setup()
    asked = json.load(sys.stdin)
    print(json.dumps({name: count(Load(**keywords)) for name, keywords in asked.items()}))
