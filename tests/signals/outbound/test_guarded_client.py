"""The guarded client, against listeners on loopback: nothing reaches what is forbidden."""

import asyncio
import itertools
import socket
import threading
from contextlib import suppress
from ipaddress import ip_address, ip_network

import httpcore2
import pytest

from signals.outbound import addresses, guarded_client, resolver
from signals.outbound.answers import Fault
from signals.outbound.guarded_client import KEPT_BODY, Client
from signals.outbound.resolver import Resolver
from signals.webhooks.runner.delivery import LEAST_LEFT
from tests.signals.outbound.listeners import (
    LOOPBACK,
    OTHER_LOOPBACK,
    certificate_for,
    endpoint,
    reply,
    silent_port,
)
from tests.signals.outbound.test_addresses import FORBIDDEN

pytestmark = pytest.mark.once

BODY, HEADERS = b'{"a":1}', {"webhook-id": "evt_1"}
NAME = "hooks.example"


def resolving_to(*found):
    """A lookup that gives each of these lists of addresses in turn, the last one for good."""
    return Names(found)


class Names:
    def __init__(self, found):
        self.answers = itertools.chain(found[:-1], itertools.repeat(found[-1]))
        self.asked = []

    def __call__(self, host, port):
        self.asked.append(host)
        return [ip_address(address) for address in next(self.answers)]


def unknown(host, port):
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


def only_interim_answers(handler, request):
    while True:
        handler.wfile.write(b"HTTP/1.1 100 C\r\n\r\n" * 1000)


def breaking_off(handler, request):
    """Answers with 200 and the first 500 bytes of 5,000."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + b"x" * 500)
    handler.close_connection = True


def post_on_one_connection(url, times):
    async def send():
        line = Client().endpoint(url)
        answers = [await line.send(BODY, HEADERS) for _ in range(times)]
        await line.close()
        return answers

    return asyncio.run(send())


def post(url, lookup=None, context=None):
    lookup = lookup or resolving_to([])
    return asyncio.run(Client(lookup, context).send(url, BODY))


@pytest.fixture
def closed(settings):
    """Nothing but public addresses is open."""
    settings.DELIVERY_ALLOW, settings.REQUIRE_HTTPS = [], True


@pytest.fixture
def one_open(settings):
    """Only 127.0.0.2 is open: what listens at 127.0.0.1 must hear nothing."""
    settings.DELIVERY_ALLOW = [ip_network(f"{OTHER_LOOPBACK}/32")]
    settings.REQUIRE_HTTPS = False


@pytest.fixture
def both_open(settings):
    settings.DELIVERY_ALLOW, settings.REQUIRE_HTTPS = [ip_network("127.0.0.0/8")], False


@pytest.fixture
def connected_to(monkeypatch):
    """The addresses to which the client connects. It connects to none of them."""
    hosts = []

    async def connect_tcp(self, host, port, *_, **__):
        hosts.append(host)
        raise httpcore2.ConnectError

    monkeypatch.setattr(httpcore2.AnyIOBackend, "connect_tcp", connect_tcp)
    return hosts


@pytest.mark.usefixtures("closed")
class TestForbidden:
    @pytest.mark.parametrize("address", FORBIDDEN)
    def test_nothing_connects_to_a_forbidden_address_by_literal_or_by_name(
        self, connected_to, address
    ):
        host = f"[{address}]" if ":" in address else address
        assert post(f"https://{host}/").error == Fault.FORBIDDEN
        assert post(f"https://{NAME}/", resolving_to([address])).error == Fault.FORBIDDEN
        assert connected_to == []

    @pytest.mark.parametrize("found", [["1.1.1.1", "10.0.0.1"], ["::1", "2606:4700::1111"]])
    def test_one_forbidden_address_among_several_is_enough(self, connected_to, found):
        assert post(f"https://{NAME}/", resolving_to(found)).error == Fault.FORBIDDEN
        assert connected_to == []

    def test_a_public_address_is_what_it_connects_to_and_not_the_name(self, connected_to):
        lookup = resolving_to(["1.1.1.1", "2606:4700::1111"])
        assert post(f"https://{NAME}:8443/", lookup).error == Fault.CONNECT
        assert connected_to == ["1.1.1.1", "2606:4700::1111"]

    @pytest.mark.parametrize(
        "host",
        [
            *("127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0x7f.1"),
            "0.0.0.0",  # noqa: S104
            *(
                "localhost",
                "localhost.",
                "127.0.0.1.",
                "\uff11\uff12\uff17.\uff10.\uff10.\uff11",
                "127。0。0。1",
            ),
            *("ⓛocalhost", "name@127.0.0.1", "127.0.0.1\\.hooks.example"),
            *("[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "[::1%25lo]"),
            *("[2002:7f00:1::]", "[::127.0.0.1]", "[0:0:0:0:0:0:0:1]", "[::]"),
        ],
    )
    def test_no_spelling_of_loopback_is_reached(self, monkeypatch, host):
        with silent_port() as (port, arrived):
            monkeypatch.setattr(addresses, "OPEN_PORTS", (port,))
            for url in (f"https://{host}:{port}/", f"http://{host}:{port}/"):
                answer = asyncio.run(Client().send(url, BODY))
                assert answer.error in {Fault.FORBIDDEN, Fault.DNS}
        assert arrived == []


@pytest.mark.usefixtures("one_open")
class TestOneOpen:
    def test_a_name_that_changes_its_mind_is_asked_once_and_sent_to_what_was_checked(self):
        lookup = resolving_to([OTHER_LOOPBACK], [LOOPBACK])
        with endpoint(address=OTHER_LOOPBACK) as heard, silent_port() as (_, arrived):
            answer = post(heard.url(host=NAME), lookup)
            assert answer.is_success
            assert lookup.asked == [NAME]
            assert post(heard.url(host=NAME), lookup).error == Fault.FORBIDDEN
        assert len(heard.requests) == 1
        assert arrived == []

    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    def test_a_redirect_is_an_answer_and_not_followed(self, status):
        with silent_port() as (port, arrived):
            answer = reply(status, Location=f"http://{LOOPBACK}:{port}/inner")
            with endpoint(answer, address=OTHER_LOOPBACK) as heard:
                found = post(heard.url(host=OTHER_LOOPBACK))
        assert (found.status, found.is_success, found.error) == (status, False, None)
        assert arrived == []

    def test_nothing_of_the_environment_is_used(self, monkeypatch):
        with silent_port() as (port, arrived), endpoint(address=OTHER_LOOPBACK) as heard:
            for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
                monkeypatch.setenv(name, f"http://{LOOPBACK}:{port}")
            assert post(heard.url(host=OTHER_LOOPBACK)).is_success
        assert arrived == []
        assert len(heard.requests) == 1

    def test_a_plain_address_is_open_only_where_it_is_allowed(self):
        with silent_port() as (port, arrived):
            assert post(f"http://{LOOPBACK}:{port}/").error == Fault.FORBIDDEN
            by_name = post(f"http://{NAME}:{port}/", resolving_to([OTHER_LOOPBACK, LOOPBACK]))
            assert by_name.error == Fault.FORBIDDEN
        assert arrived == []

    def test_what_is_allowed_for_one_network_allows_no_plain_http_to_the_public(self, connected_to):
        for url in (f"http://{NAME}/", f"https://{NAME}:9000/"):
            assert post(url, resolving_to(["1.1.1.1"])).error == Fault.FORBIDDEN
        assert connected_to == []


@pytest.mark.usefixtures("both_open")
class TestSending:
    def test_it_posts_the_body_with_the_host_and_the_headers_and_nothing_else(self):
        async def once(url):
            line = Client(resolving_to([LOOPBACK])).endpoint(url)
            answer = await line.send(BODY, HEADERS)
            await line.close()
            return answer

        with endpoint(reply(200, b"thanks")) as heard:
            answer = asyncio.run(once(heard.url("/a/b?c=d", host=NAME)))
        assert (answer.status, answer.start, answer.error) == (200, b"thanks", None)
        (request,) = heard.requests
        assert (request.path, request.body) == ("/a/b?c=d", BODY)
        assert request.headers == {
            "host": f"{NAME}:{heard.port}",
            "user-agent": "Signal-Intermediary-Service",
            "content-type": "application/json",
            "content-length": str(len(BODY)),
            **HEADERS,
        }

    def test_one_connection_takes_many_messages_and_no_cookie(self):
        async def twice(url):
            line = Client(resolving_to([LOOPBACK])).endpoint(url)
            answers = [await line.send(BODY, HEADERS) for _ in range(3)]
            await line.close()
            return answers

        with endpoint(reply(200, Set_Cookie="a=b")) as heard:
            assert all(answer.is_success for answer in asyncio.run(twice(heard.url(host=NAME))))
        assert heard.connections == 1
        assert not any("cookie" in request.headers for request in heard.requests)

    def test_a_connection_that_the_endpoint_closed_is_opened_again(self):
        def answer_and_close(handler, request):
            reply()(handler, request)
            handler.close_connection = True  # without saying so

        with endpoint(answer_and_close) as heard:
            answers = post_on_one_connection(heard.url(), times=2)
            assert [answer.status for answer in answers] == [204, 204]
        assert heard.connections == 2

    def test_only_the_beginning_of_an_answer_is_read(self):
        def endless(handler, request):
            handler.send_response(500)
            handler.end_headers()
            while True:
                handler.wfile.write(b"x" * 65536)

        with endpoint(endless) as heard:
            answer = post(heard.url())
        assert (answer.status, answer.start) == (500, b"x" * KEPT_BODY)

    @pytest.mark.parametrize("arrived", [KEPT_BODY, 2000])
    @pytest.mark.parametrize("breaks_off", [False, True], ids=["stalls", "breaks off"])
    def test_an_answer_counts_once_its_beginning_is_there(self, monkeypatch, arrived, breaks_off):
        monkeypatch.setattr(guarded_client, "TIMEOUT", 60)
        is_over = threading.Event()

        def answer(handler, request):
            head = b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n"
            handler.wfile.write(head + b"x" * arrived)
            handler.close_connection = breaks_off or is_over.wait()

        with endpoint(answer) as heard:
            found = post(heard.url())
            is_over.set()
        assert (found.status, found.error, found.start) == (200, None, b"x" * KEPT_BODY)

    def test_a_whole_answer_as_long_as_what_is_read_keeps_its_connection(self):
        with endpoint(reply(200, b"x" * KEPT_BODY)) as heard:
            answers = post_on_one_connection(heard.url(), times=2)
        assert [answer.start for answer in answers] == [b"x" * KEPT_BODY] * 2
        assert heard.connections == 1

    def test_an_answer_that_breaks_off_is_none_and_its_message_is_not_sent_again(self):
        def answer(handler, request):
            (reply(200) if len(heard.requests) == 1 else breaking_off)(handler, request)

        with endpoint(answer) as heard:
            first, on_the_kept = post_on_one_connection(heard.url(), times=2)
            assert (len(heard.requests), heard.connections) == (2, 1)
            on_a_new_one = post(heard.url())
        assert first.is_success
        for found in (on_the_kept, on_a_new_one):
            assert (found.status, found.error) == (None, Fault.BROKEN)

    @pytest.mark.parametrize("scheme", ["http", "https"])
    def test_interim_answers_are_read_up_to_a_bound(self, tmp_path, scheme):
        server, client = certificate_for(NAME, tmp_path)
        context = server if scheme == "https" else None
        with endpoint(only_interim_answers, context=context) as heard:
            answer = post(heard.url(host=NAME, scheme=scheme), resolving_to([LOOPBACK]), client)
        assert answer.error == Fault.BROKEN

    def test_a_message_whose_answer_is_too_long_is_not_sent_again(self):
        def answer(handler, request):
            (reply(200) if len(heard.requests) == 1 else only_interim_answers)(handler, request)

        with endpoint(answer) as heard:
            first, second = post_on_one_connection(heard.url(), times=2)
        assert (first.status, second.error) == (200, Fault.BROKEN)
        assert len(heard.requests) == 2

    def test_the_bound_counts_for_each_message(self, monkeypatch):
        monkeypatch.setattr(guarded_client, "BESIDE_BODY", 2000)

        with endpoint(reply(200, b"x" * 900, A="x" * 1000)) as heard:
            answers = post_on_one_connection(heard.url(), times=5)
            assert all(answer.is_success for answer in answers)
        assert heard.connections == 1

    @pytest.mark.parametrize(
        "drip", [b"", b"HTTP/1.1 200 OK\r\nA: b\r\n", b"HTTP/1.1 100 C\r\n\r\n"]
    )
    def test_one_limit_covers_everything(self, monkeypatch, drip):
        monkeypatch.setattr(guarded_client, "TIMEOUT", 0.3)

        is_over = threading.Event()

        def slow(handler, request):
            with suppress(OSError):
                for _ in range(400):  # without a limit, it ends after 20 seconds by itself
                    if is_over.wait(0.05):
                        break
                    handler.wfile.write(drip)
            handler.close_connection = True

        with endpoint(slow) as heard:
            answer = post(heard.url())
            is_over.set()
        assert answer.error == Fault.TIMEOUT

    def test_a_name_server_that_hangs_is_a_timeout(self, monkeypatch):
        monkeypatch.setattr(guarded_client, "TIMEOUT", 0.3)
        is_over = threading.Event()
        try:
            answer = post(f"https://{NAME}/", lambda host, port: is_over.wait())
        finally:
            is_over.set()
        assert answer.error == Fault.TIMEOUT

    def test_however_many_names_hang_the_others_are_found(self, monkeypatch):
        """Many new ones, and many that hung before, leave places for the others."""
        monkeypatch.setattr(resolver, "QUICK", 0)  # whoever was found was slow
        is_over, hanging = threading.Event(), []
        most = resolver.MAX_NEW - 1

        def hangs(host, port):
            if host.startswith("hangs"):
                hanging.append(host)
                is_over.wait()
            return [ip_address(LOOPBACK)]

        async def hang(names, count):
            """Everybody asks for so many names twice, and then for a new one."""
            is_over.clear()
            hosts = [f"hangs-{number}.example" for number in range(count)]
            asked = [asyncio.create_task(names.resolve(host, 443)) for host in hosts * 2]
            found = await asyncio.wait_for(names.resolve(f"{count}.example", 443), 60)
            assert found == [ip_address(LOOPBACK)]
            is_over.set()
            await asyncio.gather(*asked)

        async def many():
            names = Resolver(hangs)
            await hang(names, most)
            assert sorted(hanging) == sorted(set(hanging))  # one lookup for all who ask
            await hang(names, 2 * most)

        try:
            asyncio.run(many())
        finally:
            is_over.set()

    @pytest.mark.parametrize("remembered", [10_000, 1])
    def test_however_many_new_names_hang_a_known_one_is_found(self, monkeypatch, remembered):
        monkeypatch.setattr(resolver, "MAX_REMEMBERED", remembered)
        monkeypatch.setattr(resolver, "QUICK", 60)
        is_over = threading.Event()

        def hangs(host, port):
            if host.startswith("hangs"):
                is_over.wait()
            return [ip_address(LOOPBACK)]

        async def known_beside_new():
            names = Resolver(hangs)
            for host in ("another.example", "known.example"):
                await names.resolve(host, 443)
            hosts = [f"hangs-{number}.example" for number in range(2 * resolver.MAX_NEW)]
            asked = [asyncio.create_task(names.resolve(host, 443)) for host in hosts]
            await asyncio.sleep(0)  # each of them has begun
            found = await asyncio.wait_for(names.resolve("known.example", 443), 60)
            assert found == [ip_address(LOOPBACK)]
            assert not any(task.done() for task in asked)
            is_over.set()
            await asyncio.gather(*asked)

        try:
            asyncio.run(known_beside_new())
        finally:
            is_over.set()

    def test_without_an_answer_it_says_why(self):
        assert post(f"http://{NAME}/", resolving_to([])).error == Fault.DNS
        assert post(f"http://{NAME}/", unknown).error == Fault.DNS
        with endpoint() as heard:
            pass
        assert post(heard.url()).error == Fault.CONNECT
        with endpoint(lambda handler, request: handler.wfile.write(b"nonsense\r\n\r\n")) as heard:
            assert post(heard.url()).error == Fault.BROKEN

    @pytest.mark.parametrize(
        ("header", "seconds"),
        [
            ("120", 120),
            ("0", 0),
            ("soon", None),
            ("-1", None),
            ("9" * 10, 9999999999),
            ("9" * 400, float("inf")),
            ("1.5", None),
            ("Wed, 21 Oct 2015 07:28:00 GMT", 0),
            ("Mon, 01 Jan 9999999999 00:00:00 GMT", None),
            ("Mon, 01 Jan 2035 00:00:00 +99999999999999999", None),
        ],
    )
    def test_retry_after_is_read_in_seconds(self, header, seconds):
        with endpoint(reply(503, Retry_After=header)) as heard:
            assert post(heard.url()).retry_after == seconds

    def test_retry_after_is_read_as_a_date(self):
        with endpoint(reply(503, Retry_After="Wed, 21 Oct 2099 07:28:00 GMT")) as heard:
            assert post(heard.url()).retry_after > 10**9


@pytest.mark.usefixtures("both_open")
class TestCertificates:
    def test_the_certificate_must_be_of_the_name_and_not_of_the_address(self, tmp_path):
        server, client = certificate_for(NAME, tmp_path)
        named = []
        server.sni_callback = lambda sock, name, context: named.append(name)
        to_loopback = resolving_to([LOOPBACK])
        with endpoint(context=server) as heard:
            assert post(heard.url(host=NAME, scheme="https"), to_loopback, client).is_success
            assert named == [NAME]
            other = post(heard.url(host="other.example", scheme="https"), to_loopback, client)
            by_address = post(heard.url(scheme="https"), to_loopback, client)
        assert other.error == by_address.error == Fault.TLS
        assert len(heard.requests) == 1

    def test_a_certificate_of_no_known_authority_is_refused(self, tmp_path):
        server, _ = certificate_for(NAME, tmp_path)
        with endpoint(context=server) as heard:
            answer = post(heard.url(host=NAME, scheme="https"), resolving_to([LOOPBACK]))
        assert answer.error == Fault.TLS
        assert heard.requests == []


def test_a_message_ends_before_its_lease_and_two_dead_addresses_leave_time_for_a_third():
    assert guarded_client.TIMEOUT == 10
    assert guarded_client.TIMEOUT < LEAST_LEFT
    assert 3 * guarded_client.CONNECT_TIMEOUT < guarded_client.TIMEOUT


@pytest.mark.usefixtures("both_open")
def test_the_libraries_log_nothing_of_a_request_at_the_most_talkative_level(caplog):
    caplog.set_level("DEBUG")
    with endpoint() as heard:
        assert post(heard.url("/T0K3N", host=NAME), resolving_to([LOOPBACK])).is_success
    assert [line.name for line in caplog.records if line.name != "asyncio"] == []
