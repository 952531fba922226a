"""Logs: one line of JSON per request, and no text that breaks a line."""

import json
import logging
import os
import secrets
import sys

import httpx2
import pytest
from django.http import HttpResponse

from config.logging_setup import formatter
from config.middleware import log_requests
from tests.client import bearer
from tests.config.test_settings import KEYS, look
from tests.server import run_python

pytestmark = pytest.mark.once


def lines_about(web, request_id):
    """The lines about one request."""
    lines = [json.loads(line) for line in web.log.read_text().splitlines()]
    return [line for line in lines if line.get("request") == request_id]


def ask(web, method, path, **said):
    """The line of a request; its answer has been read, and the line stands before that."""
    request_id = secrets.token_hex(8)
    headers = {"X-Request-Id": request_id, **said.pop("headers", {})}
    httpx2.request(method, f"{web.base_url}{path}", headers=headers, trust_env=False, **said)
    lines = lines_about(web, request_id)
    assert len(lines) == 1, lines
    return lines[0]


@pytest.mark.processes
class TestARequest:
    def test_it_is_one_line_that_says_what_came_of_it(self, web):
        card = web.seed["card"]
        body = {"fanout": True, "nonce": secrets.token_hex(8), "elected": True, "source": "floor"}
        body |= {"pair": card["pair"], "direction": card["direction"]}
        headers = bearer(web.seed["platformToken"])
        line = ask(web, "POST", "/api/hooks/signal", json=body, headers=headers)
        assert line["at"].endswith("Z")
        assert line.pop("ms") > 0
        assert line.pop("who").startswith("tok_")
        del line["at"], line["request"]
        assert line == {
            "event": "request",
            "level": "info",
            "logger": "config.middleware",
            "method": "POST",
            "route": "api/hooks/signal",
            "status": 200,
            "outcome": "filled",
        }

    def test_a_refusal_has_its_code(self, web):
        line = ask(web, "GET", "/api/v1/me", headers=bearer("wrong"))
        assert (line["status"], line["outcome"], line["who"]) == (401, "token_invalid", None)

    def test_the_path_is_its_route_since_it_may_hold_a_secret(self, web):
        token = web.seed["platformToken"]
        line = ask(web, "GET", f"/accounts/password/reset/key/{token}/")
        assert token not in json.dumps(line)
        line = ask(web, "GET", f"/accounts/signup/link/{token}/")
        assert line["route"] == "accounts/signup/link/<str:token>/"
        assert token not in json.dumps(line)
        assert ask(web, "GET", "/problems/invalid?a=b")["route"] == "problems/<str:code>"
        assert ask(web, "GET", f"/{token}")["route"] == "none"

    def test_a_method_that_anybody_makes_up_is_not_repeated(self, web):
        assert ask(web, "SECRETS", "/healthz")["method"] == "another"


TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.mark.parametrize(
    ("given", "logged"),
    [
        (f"00-{TRACE}-00f067aa0ba902b7-01", TRACE),
        (f"00-{TRACE.upper()}-00f067aa0ba902b7-01", None),
        (f"00-{TRACE}-00f067aa0ba902b7-01,", None),
        (None, None),
    ],
)
def test_every_line_of_a_request_has_the_id_of_its_callers_trace(given, logged, rf):
    lines = []

    class Kept(logging.Handler):
        def emit(self, record):
            lines.append(json.loads(self.format(record)))

    def answer(request):
        logging.getLogger("a.view").warning("Something is wrong.")
        return HttpResponse()

    kept = Kept()
    kept.setFormatter(formatter())
    logging.getLogger().addHandler(kept)
    try:
        log_requests(answer)(rf.get("/", headers={"traceparent": given} if given else {}))
        logging.getLogger("a.view").warning("The next request.")
    finally:
        logging.getLogger().removeHandler(kept)
    found = {line["event"]: line.get("trace_id") for line in lines}
    assert found == {"Something is wrong.": logged, "request": logged, "The next request.": None}


def line_of(message, *arguments, **said):
    """Returns the line that a Python logger writes."""
    record = logging.getLogger("somebody").makeRecord(
        "somebody", logging.ERROR, __file__, 1, message, arguments, said.get("exc_info")
    )
    return formatter().format(record)


def test_line_ends_and_quotes_in_a_text_break_no_line():
    line = line_of('one\r\n{"level":"info"}\u2028%s', "\x00\n")
    assert len(line.splitlines()) == 1
    assert json.loads(line)["event"] == 'one\r\n{"level":"info"}\u2028\x00\n'
    assert json.loads(line)["level"] == "error"
    assert json.loads(line)["logger"] == "somebody"


def test_a_traceback_says_where_and_shows_no_variable():
    known = "svc_sign_" + "s" * 49

    def fails(secret):
        raise ValueError("No.")

    try:
        fails(known)
    except ValueError:
        line = line_of("A request failed.", exc_info=sys.exc_info())
    assert known not in line
    [raised] = json.loads(line)["exception"]
    assert (raised["exc_type"], raised["exc_value"]) == ("ValueError", "No.")
    assert raised["frames"][-1]["name"] == "fails"
    assert not any("locals" in frame for frame in raised["frames"])


def test_a_level_keeps_the_lines_below_it_out():
    assert look("LOGGING", LOG_LEVEL="warning", **KEYS)["LOGGING"]["root"]["level"] == "WARNING"


# In a process of its own, in which no request was served yet.
FIRST_REQUEST = """
import contextvars

import django

django.setup()
from django.test import Client

from config import middleware

make, made = contextvars.ContextVar, []
contextvars.ContextVar = lambda name, **options: made.append(name) or make(name, **options)
trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
assert Client(headers={"traceparent": trace}).get("/healthz").status_code == 200
print([name for name in made if name.startswith("structlog")])
"""


@pytest.mark.processes
def test_two_first_requests_at_once_cannot_make_two_variables_of_a_name():
    variables = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    assert run_python(variables, "-W", "ignore", "-c", FIRST_REQUEST).splitlines()[-1] == "[]"
