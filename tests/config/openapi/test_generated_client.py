"""A client that a public generator makes of the served document does the work of an engine."""

import json
import subprocess
import sys
from importlib import import_module

import pytest

from tests.conformance.browser import Browser
from tests.conformance.client import Service, nonce
from tests.conformance.streams import MEDIA_TYPE, PATIENCE, frames_of
from tests.server import delivering
from tests.signals.outbound.listeners import endpoint, reply, taking
from tests.signals.webhooks.runner.stage import until

pytestmark = [pytest.mark.processes, pytest.mark.once]

PACKAGE = "generated_client"


@pytest.fixture(scope="module")
def service(web):
    with Service(web.base_url, web.seed) as found:
        yield found


@pytest.fixture(scope="module")
def generated(web, tmp_path_factory):
    """The folder of the generated package, which can be imported. Any warning is a failure."""
    folder = tmp_path_factory.mktemp("generated")
    settings = folder / "settings.json"
    settings.write_text('{"post_hooks": []}')  # it is not formatted
    options = {
        "--url": f"{web.base_url}/api/schema",
        "--output-path": str(folder / PACKAGE),
        "--config": str(settings),
        "--meta": "none",
    }
    given = [text for option in options.items() for text in option]
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--fail-on-warning"]
    done = subprocess.run([*command, *given], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield folder / PACKAGE


@pytest.fixture(scope="module")
def api(generated):
    """The generated functions by operation, such as ``api["list_desks"].sync``."""
    modules = {file.stem: file.parent.name for file in generated.glob("api/*/[a-z]*.py")}
    return {name: import_module(f"{PACKAGE}.api.{tag}.{name}") for name, tag in modules.items()}


@pytest.fixture(scope="module")
def models(generated):
    return import_module(f"{PACKAGE}.models")


@pytest.fixture(scope="module")
def engine(generated, service):
    """A generated client with the platform's token."""
    make = import_module(PACKAGE).AuthenticatedClient
    with make(base_url=service.base_url, token=service.platform) as client:
        yield client


@pytest.fixture(scope="module")
def owner(generated, service):
    """A generated client with the session of a desk's owner."""
    make = import_module(PACKAGE).AuthenticatedClient
    with Browser(service) as browser:
        browser.sign_in(service.seed["user"])
        csrf = {"token": browser.csrf, "prefix": "", "auth_header_name": "X-CSRFToken"}
        cookies = dict(browser.http.cookies)
        with make(base_url=service.base_url, cookies=cookies, **csrf) as client:
            yield client


def test_it_has_every_operation(service, api):
    paths = service.get("/api/schema").json()["paths"].values()
    documented = [operation["operationId"] for path in paths for operation in path.values()]
    assert sorted(name.replace("_", "") for name in api) == sorted(map(str.lower, documented))


def test_it_pulls_the_desks_page_by_page(service, api, engine):
    desks, after = [], {}
    while True:
        page = api["list_desks"].sync(client=engine, limit=4, **after)
        assert len(page.desks) <= 4
        desks += page.desks
        if page.next_ is None:
            break
        after = {"after": page.next_}
    assert [desk.user_id for desk in desks] == [desk["userId"] for desk in service.desks()]
    (ready,) = [desk for desk in desks if desk.user_id == service.desk]
    assert (ready.ready, ready.election.pair) == (True, service.elected["pair"])


def test_it_deploys_fans_out_and_follows_the_feed(service, api, engine, models):
    start = api["list_events"].sync(client=engine, order=models.ListEventsOrder.DESC, limit=1)
    one = models.DeploySignal.from_dict(service.one_desk())
    deployed = api["deploy_signal"].sync(service.desk, client=engine, body=one)
    assert (deployed.outcome, deployed.signal.user_id) == ("filled", service.desk)
    every = models.FanoutSignal.from_dict(service.fanout())
    fanned_out = api["push_signal"].sync(client=engine, body=every)
    assert fanned_out.filled > 1
    again = api["push_signal"].sync(client=engine, body=every)
    assert (again.code, again.first.signal) == ("nonce_used", fanned_out.signal)

    followed, after = [], start.next_
    while len(followed) < 2:
        kinds = [models.ListEventsKindItem(kind) for kind in ("signal.filled", "card.retired")]
        page = api["list_events"].sync(client=engine, after=after, limit=1, kind=kinds, wait=5)
        followed, after = followed + page.events, page.next_
    assert [event.kind for event in followed] == ["signal.filled"] * 2
    signals = [event.signal.id for event in followed]
    assert signals == [deployed.signal.id, fanned_out.signal.id]
    found = api["find_signal"].sync(
        client=engine, nonce=one.nonce, source=models.FindSignalSource.FLOOR
    )
    assert found == api["read_signal"].sync(signals[0], client=engine)

    # The generator has no function for a stream. Its classes read the frames.
    request = {"params": {"after": start.next_}, "headers": {"Accept": MEDIA_TYPE}}
    http = engine.get_httpx_client()
    with http.stream("GET", "/api/v1/events", timeout=PATIENCE, **request) as stream:
        frames = (frame for frame in frames_of(stream.iter_lines()) if frame.data)
        streamed = [models.EventFrame.from_dict(vars(next(frames))) for _ in signals]
    events = [models.EventRecord.from_dict(json.loads(frame.data)) for frame in streamed]
    assert events == followed


def test_it_manages_a_webhook(service, api, engine, owner, models, web):
    def act(name, *body, status=200):
        done = api[name].sync_detailed(made.id, client=owner, **({"body": body[0]} if body else {}))
        assert done.status_code == status, done.content
        return done.parsed

    def read():
        return act("read_subscription")

    def deploy():
        """Sends a signal to the owner's desk. Returns the cursor before it, and its event's id."""
        before = read().cursor
        sent = models.DeploySignal.from_dict(service.one_desk())
        assert api["deploy_signal"].sync(service.own_desk, client=engine, body=sent).filled == 1
        last = api["list_events"].sync(client=engine, order=models.ListEventsOrder.DESC, limit=1)
        return before, last.events[0].id

    def taken():
        """The events that the endpoint got, as the generated class reads them."""
        messages = [json.loads(request.body) for request in heard.requests]
        events = [one for one in messages if one["type"] != "subscription.test"]
        return [models.EventMessage.from_dict(one).data.id for one in events]

    with endpoint() as heard:
        asked = {"url": heard.url(), "name": "Orders", "kinds": ["signal.*"]}
        body, key = models.NewSubscription.from_dict(asked), nonce()
        create = api["create_subscription"].sync
        made = create(client=owner, body=body, idempotency_key=key)
        again = create(client=owner, body=body, idempotency_key=key)
        assert (again.id, again.secret) == (made.id, None)
        heard.answer = taking(made.secret)
        with delivering(web):
            tested = until(lambda: read().last_test)
            assert (read().state, tested.status) == ("active", 200)
            act("test_subscription", status=202)
            until(lambda: read().last_test != tested)
            assert read().last_test.status == 200

            before, first = deploy()
            until(lambda: first in taken())
            until(lambda: act("list_attempts").attempts[0].event == first)
            heard.answer = reply(503)
            second = deploy()[1]
            until(lambda: read().state == "failing")
            assert act("list_attempts").attempts[0].status == 503
            heard.answer = taking(made.secret)
            skipped = models.Skipping(events=models.SkippingEvents.NEXT)
            assert act("skip_events", skipped).lag == 0
            heard.requests.clear()

            act("resend_event", models.Resending(event=second), status=202)
            until(lambda: second in taken())
            heard.requests.clear()
            act("rewind_subscription", models.Rewinding(after=before))
            until(lambda: {first, second} <= set(taken()))
    replaced = act("replace_subscription_secret", models.SecretReplacement(overlap=60), status=201)
    assert len(replaced.secrets) == 2
    renamed = models.SubscriptionChange.from_dict({"name": "Fills", "paused": True})
    assert act("change_subscription", renamed).state == "paused"
    listed = api["list_subscriptions"].sync(client=owner).subscriptions
    assert [(one.id, one.name) for one in listed] == [(made.id, "Fills")]
    act("remove_subscription", status=204)
    gone = act("read_subscription", status=404)
    assert isinstance(gone, models.Problem)
    assert gone.code == "not_found"
