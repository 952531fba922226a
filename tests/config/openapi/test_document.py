"""GET /api/schema: the document is served, valid and complete."""

import io
import json
import os
import re
import subprocess
import sys

import pytest
from django.core.management import call_command
from django.urls import resolve

from config.environment import ROOT
from config.middleware import methods_of
from config.openapi.generator import document
from events.http.refusals import Refused
from tests import client, described
from tests.routes import address, routes

pytestmark = pytest.mark.once

SCHEMA = "/api/schema"
COMMAND = ("spectacular", "--format", "openapi-json")

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
    of_routes = {
        (method, re.sub(r"<(\w+):\w+>", r"{\1}", f"/{route}"))
        for route in routes()
        if route.startswith("api/") and route not in ("api/schema", "api/docs")
        for method in {*methods_of(resolve(address(route)).func)} - {"HEAD", "OPTIONS"}
    }
    assert {(operation["method"], operation["path"]) for operation in found} == of_routes


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


def test_whatever_is_asked_for_it_is_json():
    answer = client.get(SCHEMA, Accept="application/yaml")
    assert answer.headers["Content-Type"] == "application/json"
