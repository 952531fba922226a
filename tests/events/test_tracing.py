"""The context that a caller sends: W3C Trace Context, version 00."""

import hashlib

import pytest

from events import tracing

pytestmark = pytest.mark.once

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize("flags", ["00", "01", "ff"])
def test_a_traceparent_is_a_context(flags):
    found = tracing.parse(f"00-{TRACE}-{SPAN}-{flags}")
    assert found == (TRACE, SPAN, flags)
    assert str(found) == f"00-{TRACE}-{SPAN}-{flags}"


@pytest.mark.parametrize(
    "header",
    [
        "",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}-01-",
        f"00-{TRACE}-{SPAN}-01-ab",
        f"01-{TRACE}-{SPAN}-01",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE[:-1]}g-{SPAN}-01",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00_{TRACE}_{SPAN}_01",
        f" 00-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01\n",
        f"00-{TRACE}-{SPAN}-01,00-{TRACE}-{SPAN}-01",
        f"00-{TRACE[:-1]}٣-{SPAN}-01",
    ],
)
def test_anything_else_is_none(header):
    assert tracing.parse(header) is None


def test_the_trace_of_a_message_is_computed_from_its_id():
    context = tracing.of_message("evt_1042_9c4e21d0")
    assert context.trace_id == hashlib.sha256(b"evt_1042_9c4e21d0").hexdigest()[:32]
    assert tracing.parse(str(context)) == context
    assert context.flags == "00"
    assert context != tracing.of_message("evt_1043_9c4e21d0")
