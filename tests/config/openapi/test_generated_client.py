"""A client that a public generator makes of the served document does the work of an engine."""

import json
import subprocess
import sys
from importlib import import_module

import pytest

from tests.conformance.client import Service
from tests.conformance.streams import MEDIA_TYPE, PATIENCE, frames_of

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


def test_it_has_every_operation(service, api):
    paths = service.get("/api/schema").json()["paths"].values()
    documented = [operation["operationId"] for path in paths for operation in path.values()]
    assert sorted(name.replace("_", "") for name in api) == sorted(map(str.lower, documented))


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
