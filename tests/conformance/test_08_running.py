"""Section 8, what of it is seen from outside: where the service also answers."""

import io
import zipfile

import pytest

from tests.conformance.client import DESKS, EVENTS, HOOK, ME, TOKENS

pytestmark = pytest.mark.once

OPERATIONS = {
    "/api/v1": {"get"},
    ME: {"get"},
    DESKS: {"get"},
    f"{DESKS}/{{userId}}": {"get"},
    f"{DESKS}/{{userId}}/signal": {"post"},
    EVENTS: {"get"},
    TOKENS: {"get", "post", "delete"},
    HOOK: {"get", "post"},
}


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_it_says_that_it_lives_and_is_ready(service, path):
    """Section 8."""
    answer = service.get(path)
    assert answer.status_code == 200
    assert "no-store" in answer.headers["Cache-Control"]
    assert service.http.head(path).status_code == 200


def test_the_schema_describes_every_operation(service):
    """Sections 4 and 8: /api/schema, public, with an ETag."""
    answer = service.get("/api/schema", headers={"Accept": "application/json"})
    assert answer.status_code == 200
    assert answer.headers["Cache-Control"] == "public, no-cache"
    paths = answer.json()["paths"]
    found = {
        path: {name for name in operations if name != "parameters"}
        for path, operations in paths.items()
    }
    assert {path: found[path] for path in OPERATIONS} == OPERATIONS
    again = service.get(
        "/api/schema",
        headers={"Accept": "application/json", "If-None-Match": answer.headers["ETag"]},
    )
    assert again.status_code == 304


def test_the_schema_can_be_read_and_tried(service):
    """Section 8: /api/docs."""
    answer = service.get("/api/docs")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("text/html")


def test_pip_can_install_the_client_of_engines(service):
    """Section 8: /client/…."""
    answer = service.get("/client/signals_client-0.1.0-py3-none-any.whl")
    assert answer.status_code == 200
    with zipfile.ZipFile(io.BytesIO(answer.content)) as wheel:
        assert "signals_client/__init__.py" in wheel.namelist()


@pytest.mark.parametrize("path", ["/accounts/login/", "/accounts/signup/"])
def test_people_sign_in_and_up(service, path):
    """Section 8: /accounts/…."""
    assert service.get(path).status_code == 200


def test_the_control_area_is_for_staff(service, user, admin):
    """Section 8: /control/."""
    assert service.get("/control/").headers["Location"].startswith("/accounts/login/")
    assert user.get("/control/").status_code == 403
    assert admin.get("/control/").status_code == 200
