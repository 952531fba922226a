"""Which URLs are refused, before a name is resolved, and which addresses after it."""

from ipaddress import ip_address, ip_network

import pytest

from signals.outbound.addresses import MAX_URL_LENGTH, ForbiddenURL, check_url, is_open

pytestmark = pytest.mark.once

SECRET_PATH = "/T0K3N?key=s3cr3t"

# Every kind of address that is not public, and each way in which IPv6 leads to IPv4.
FORBIDDEN = [
    "0.0.0.0",  # noqa: S104
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.8",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:8.8.8.8",
    "::ffff:0:127.0.0.1",
    "64:ff9b::127.0.0.1",
    "64:ff9b::8.8.8.8",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:2::1",
    "2001:10::1",
    "2001:20::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:808:808::1",
    "3fff::1",
    "4000::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fec0::1",
    "ff02::1",
]
PUBLIC = [
    *("1.1.1.1", "8.8.8.8", "100.63.255.255", "172.32.0.1", "192.0.1.1", "223.255.255.255"),
    *("2001:200::1", "2606:4700::1111", "2a00:1450::1"),
]


@pytest.fixture(autouse=True)
def usual_settings(settings):
    settings.DELIVERY_ALLOW, settings.REQUIRE_HTTPS = [], True


def refusal(url):
    with pytest.raises(ForbiddenURL) as error:
        check_url(url)
    assert "T0K3N" not in str(error.value)
    assert "s3cr3t" not in str(error.value)
    return error.value.code


@pytest.mark.parametrize("address", FORBIDDEN)
def test_an_address_that_is_not_public_is_closed(address):
    assert not is_open(ip_address(address), usual=True)
    host = f"[{address}]" if ":" in address else address
    assert refusal(f"https://{host}{SECRET_PATH}") == "address"


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_open_at_the_usual_ports_only(address):
    assert is_open(ip_address(address), usual=True)
    assert not is_open(ip_address(address), usual=False)


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("http://hooks.example/", "scheme"),
        ("ftp://hooks.example/", "scheme"),
        ("gopher://hooks.example/", "scheme"),
        ("file:///etc/passwd", "scheme"),
        ("hooks.example/path", "form"),
        ("//hooks.example/path", "form"),
        ("", "form"),
        (" https://hooks.example/", "form"),
        ("https://hooks.example/a b", "form"),
        ("https://hooks.example/a\nHost: inner", "form"),
        ("https://hooks.example/a\r\nX: y", "form"),
        ("https://hooks.example/\x00", "form"),
        ("https://hooks.example/ä", "form"),
        ("https://hooks.example/#fragment", "form"),
        ("https://hooks.example\\@127.0.0.1/", "form"),
        ("https://127.0.0.1\\.hooks.example/", "form"),
        (f"https://hooks.example/{'a' * MAX_URL_LENGTH}", "form"),
        ("https://name@hooks.example/", "credentials"),
        ("https://name:word@hooks.example/", "credentials"),
        ("https://hooks.example@127.0.0.1/", "credentials"),
        ("https://hooks.example:80/", "port"),
        ("https://hooks.example:22/", "port"),
        ("https://hooks.example:65536/", "port"),
        ("https://hooks.example:0443/", "host"),
        ("https://hooks.example:/", "host"),
        ("https://hooks.example:443:443/", "host"),
        ("https:///path", "host"),
        ("https://:443/", "host"),
        ("https://hooks.example./", "host"),
        ("https://localhost./", "host"),
        ("https://.hooks.example/", "host"),
        ("https://hooks..example/", "host"),
        ("https://hooks_1.example/", "host"),
        ("https://hooks%2eexample/", "host"),
        ("https://127.0.0.1%00.hooks.example/", "host"),
        ("https://xn--.example/", "host"),
        (f"https://{'a' * 64}.example/", "host"),
        ("https://[::1%25lo]/", "host"),
        ("https://[fe80::1%251]/", "host"),
        ("https://[fe80::1%eth0]/", "host"),
        ("https://[v1.fe80]/", "host"),
        ("https://[::1/", "host"),
        ("https://::1/", "host"),
        ("https://127.1/", "host"),
        ("https://127.0.1/", "host"),
        ("https://2130706433/", "host"),
        ("https://0x7f000001/", "host"),
        ("https://0x7f.0.0.1/", "host"),
        ("https://0177.0.0.1/", "host"),
        ("https://017700000001/", "host"),
        ("https://127.0.0.0x1/", "host"),
        ("https://127.0.0.1./", "host"),
        ("https://256.0.0.1/", "host"),
        ("https://1.1.1.1.1/", "host"),
        ("https://hooks.example.1/", "host"),
        ("https://\uff11\uff12\uff17.\uff10.\uff10.\uff11/", "address"),
        ("https://127。0。0。1/", "address"),
        ("https://①②⑦.0.0.1/", "address"),
    ],
)
def test_what_is_not_a_plain_public_https_url_is_refused(url, code):
    assert refusal(url) == code


@pytest.mark.parametrize(
    ("url", "stored"),
    [
        ("https://hooks.example", "https://hooks.example/"),
        ("HTTPS://Hooks.Example:443/A?b=C", "https://hooks.example/A?b=C"),
        ("https://hooks.example:8443/a", "https://hooks.example:8443/a"),
        ("https://hooks.example?key=1", "https://hooks.example/?key=1"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
        ("https://[2606:4700:0::1111]/", "https://[2606:4700::1111]/"),
        ("https://1.1.1.1/hook", "https://1.1.1.1/hook"),
    ],
)
def test_a_url_is_stored_in_one_form_and_read_back_as_the_same(url, stored):
    assert check_url(url).url == stored
    assert check_url(stored).url == stored


class TestAllow:
    """DELIVERY_ALLOW, for the operator's own machine and network."""

    @pytest.fixture(autouse=True)
    def allowed(self, settings):
        everything = [ip_network("0.0.0.0/0"), ip_network("::/0")]
        settings.DELIVERY_ALLOW, settings.REQUIRE_HTTPS = everything, False

    @pytest.mark.parametrize(
        "url", ["http://127.0.0.1:9000/a", "http://[::1]:80/", "https://10.1.2.3:7/", "http://a/"]
    )
    def test_it_opens_http_and_every_port_there(self, url):
        assert check_url(url).url.startswith(url.partition(":80/")[0])

    @pytest.mark.parametrize(
        "address",
        [
            "0.0.0.0",  # noqa: S104
            *("168.63.129.16", "169.254.169.254", "224.0.0.1", "255.255.255.255", "::", "fe80::1"),
            *("ff02::1", "::169.254.169.254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe"),
            *("2002:a9fe:a9fe::", "::ffff:127.0.0.1", "2001::1"),
        ],
    )
    def test_it_never_opens_link_local_multicast_or_embedded_addresses(self, address):
        assert not is_open(ip_address(address), usual=True)
        assert not is_open(ip_address(address), usual=False)

    @pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
    def test_it_does_not_open_loopback_while_https_is_required(self, settings, address):
        assert is_open(ip_address(address), usual=False)
        settings.REQUIRE_HTTPS = True
        assert not is_open(ip_address(address), usual=True)
        assert is_open(ip_address("10.1.2.3"), usual=False)

    def test_it_opens_nothing_beside_its_networks(self, settings):
        settings.DELIVERY_ALLOW = [ip_network("10.1.0.0/16")]
        assert is_open(ip_address("10.1.2.3"), usual=False)
        assert not is_open(ip_address("10.2.2.3"), usual=True)
        assert refusal("http://1.1.1.1/") == "address"
