"""Client addresses, and the networks that failures are counted by (contract, section 7)."""

import pytest
from django.test import Client, RequestFactory

from desks.models import User
from events.http.requests import client_address, rate_limit_address
from tests import staff
from tests.client import bearer, code, get
from tests.factories import PASSWORD

pytestmark = pytest.mark.once

PROXY = "10.0.0.1"


def request(forwarded: str, remote: str = PROXY):
    return RequestFactory().get("/", REMOTE_ADDR=remote, headers={"X-Forwarded-For": forwarded})


@pytest.fixture
def one_proxy(settings):
    settings.TRUSTED_PROXIES = 1


@pytest.mark.parametrize(
    ("forwarded", "address", "network"),
    [
        ("192.0.2.1", "192.0.2.1", "192.0.2.1"),
        (" 192.0.2.1:55 ", "192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("[2001:db8:1:2:3::4]", "2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("[2001:db8:1:2:3::4]:55", "2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::1", "fe80::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1", "192.0.2.1"),
        ("[::ffff:192.0.2.1]:55", "192.0.2.1", "192.0.2.1"),
        *(
            (garbage, PROXY, PROXY)
            for garbage in ("", "unknown", "a.b.c.d", "1.2.3", "[", ":", "\x00")
        ),
    ],
)
def test_an_address_is_read_with_or_without_a_port(one_proxy, forwarded, address, network):
    sent = request(forwarded)
    assert (client_address(sent), rate_limit_address(sent)) == (address, network)


@pytest.mark.parametrize(
    ("proxies", "forwarded", "address"),
    [
        (0, "192.0.2.1", PROXY),
        (1, "192.0.2.9, 192.0.2.1", "192.0.2.1"),
        (2, "192.0.2.1, 192.0.2.8", "192.0.2.1"),
        (2, "192.0.2.9, 192.0.2.1, 192.0.2.8", "192.0.2.1"),
        (3, "192.0.2.1, 192.0.2.8", PROXY),  # fewer hops than proxies: the connection's own address
        (1, "192.0.2.1, ", PROXY),
    ],
)
def test_the_address_is_the_one_that_the_outermost_trusted_proxy_saw(
    settings, proxies, forwarded, address
):
    settings.TRUSTED_PROXIES = proxies
    assert client_address(request(forwarded)) == address


@pytest.mark.parametrize("remote", ["", "unix:"])
def test_a_client_on_a_unix_socket_is_local(remote):
    assert client_address(request("192.0.2.9", remote)) == "127.0.0.1"


@pytest.mark.django_db
@pytest.mark.parametrize("forwarded", ["fe80::1%eth0", "garbage"])
def test_signing_in_works_with_every_form_of_the_proxys_header(one_proxy, forwarded):
    user = staff.verified(User.objects.create_user("known@example.com", PASSWORD))
    login = {"login": user.email, "password": PASSWORD}
    answer = Client(headers={"X-Forwarded-For": forwarded}).post("/accounts/login/", login)
    assert answer.status_code == 302
    assert user.usersession_set.count() == 1


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::2", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
    ],
)
def test_failures_are_counted_by_network(one_proxy, settings, first, second, same):
    settings.LIMITS = {**settings.LIMITS, "failures": "1/minute"}
    codes = [
        code(get("/api/v1/me", **{"X-Forwarded-For": seen}, **bearer("nonsense")))
        for seen in (first, second)
    ]
    assert codes == ["token_invalid", "rate_limited" if same else "token_invalid"]
