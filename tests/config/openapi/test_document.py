"""GET /api/schema: the document is served, valid and complete."""

import io
import json
import os
import subprocess
import sys

import pytest
from django.core.management import call_command

from config.environment import ROOT
from config.openapi.generator import document
from events.http.refusals import Refused
from events.kinds import DATA, Kind
from tests import client, described

pytestmark = pytest.mark.once

SCHEMA = "/api/schema"
COMMAND = ("spectacular", "--format", "openapi-json")

OPERATIONS = {
    ("GET", "/api/v1"),
    ("GET", "/api/v1/me"),
    ("GET", "/api/v1/desks"),
    ("GET", "/api/v1/desks/{userId}"),
    ("POST", "/api/v1/desks/{userId}/signal"),
    ("GET", "/api/v1/events"),
    ("GET", "/api/v1/tokens"),
    ("POST", "/api/v1/tokens"),
    ("DELETE", "/api/v1/tokens"),
    ("GET", "/api/hooks/signal"),
    ("POST", "/api/hooks/signal"),
    ("POST", "/api/hooks/check"),
    ("GET", "/api/v1/bots"),
    ("GET", "/api/v1/signals"),
    ("GET", "/api/v1/signals/{signalId}"),
    ("GET", "/api/v1/subscriptions"),
    ("POST", "/api/v1/subscriptions"),
    ("GET", "/api/v1/subscriptions/{subscriptionId}"),
    ("PATCH", "/api/v1/subscriptions/{subscriptionId}"),
    ("DELETE", "/api/v1/subscriptions/{subscriptionId}"),
    ("POST", "/api/v1/subscriptions/{subscriptionId}/secret"),
    ("POST", "/api/v1/subscriptions/{subscriptionId}/test"),
    ("POST", "/api/v1/subscriptions/{subscriptionId}/rewind"),
    ("POST", "/api/v1/subscriptions/{subscriptionId}/resend"),
    ("POST", "/api/v1/subscriptions/{subscriptionId}/skip"),
    ("GET", "/api/v1/subscriptions/{subscriptionId}/attempts"),
}

# --- The document --------------------------------------------------------------------------------


def test_it_is_valid_openapi_3_1_and_nothing_in_it_was_guessed(tmp_path):
    file = str(tmp_path / "schema.json")
    call_command(*COMMAND, validate=True, fail_on_warn=True, file=file)
    assert document()["openapi"] == "3.1.0"


@pytest.mark.processes
def test_every_process_makes_the_same_of_it():
    """Sets have another order in each process: this one, and one with a seed of its own."""
    own = io.StringIO()
    call_command(*COMMAND, stdout=own)
    other = subprocess.run(
        [sys.executable, "manage.py", *COMMAND],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "1", "DJANGO_SETTINGS_MODULE": "tests.settings"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert other.stdout == own.getvalue()


def test_it_holds_every_operation_and_no_other():
    found = described.operations().values()
    assert {(operation["method"], operation["path"]) for operation in found} == OPERATIONS


@pytest.mark.parametrize("operation_id", described.operations())
def test_every_operation_and_every_parameter_is_explained(operation_id):
    operation = described.operations()[operation_id]
    assert operation["summary"]
    assert operation["description"].endswith(".")
    assert all(parameter["description"] for parameter in operation.get("parameters", []))


def test_every_refusal_is_one_of_some_operation():
    text = json.dumps(document()["paths"]) + json.dumps(document()["components"]["responses"])
    missing = [each.code for each in Refused.registry() if f'examples/{each.code}"' not in text]
    assert missing == ["made_already"]  # only pages answer it


def test_it_says_what_an_endpoint_of_webhooks_gets():
    webhooks = document()["webhooks"]
    assert set(webhooks) == {"event", "subscription.test"}
    for webhook in webhooks.values():
        (content,) = webhook["post"]["requestBody"]["content"].values()
        example = content["examples"]["Message"]["value"]
        assert described.shape_faults(content["schema"], example) == []
        named = {each["name"] for each in webhook["post"]["parameters"]}
        signed = {"webhook-id", "webhook-timestamp", "webhook-signature"}
        assert named == {*signed, "traceparent"}


def test_wherever_a_token_is_read_a_wrong_one_and_too_many_are_answered():
    for name, operation in described.operations().items():
        if operation.get("security"):
            codes = {
                code
                for status in ("401", "429")
                for content in described.resolved(operation["responses"][status])[
                    "content"
                ].values()
                for code in content["examples"]
            }
            assert {"token_invalid", "rate_limited"} <= codes, name


def test_every_kind_of_event_has_its_shape():
    assert sorted(DATA) == sorted(Kind)


def test_the_examples_of_bodies_are_of_their_shape():
    for operation in described.operations().values():
        for name, body in described.examples(operation).items():
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            assert described.shape_faults(schema, body) == [], name


def test_the_examples_of_answers_are_of_their_shape():
    for operation_id, operation in described.operations().items():
        for status, answer in operation["responses"].items():
            for content in described.resolved(answer).get("content", {}).values():
                for name, example in content.get("examples", {}).items():
                    value = described.resolved(example)["value"]
                    faults = described.shape_faults(content["schema"], value)
                    assert faults == [], (operation_id, status, name)


# --- How it is served ----------------------------------------------------------------------------


def test_everybody_gets_it_as_json():
    answer = client.get(SCHEMA)
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "application/json")
    assert answer.json() == json.loads(json.dumps(document()))


def test_whatever_is_asked_for_it_is_json():
    answer = client.get(SCHEMA, Accept="application/yaml")
    assert answer.headers["Content-Type"] == "application/json"
