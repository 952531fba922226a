"""Section 8, what of it is seen from outside: where the service also answers."""

import io
import zipfile

import pytest

pytestmark = pytest.mark.once


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_it_says_that_it_lives_and_is_ready(service, path):
    answer = service.get(path)
    assert answer.status_code == 200
    assert "no-store" in answer.headers["Cache-Control"]
    assert service.http.head(path).status_code == 200


def test_the_schema_describes_every_operation(service):
    """Sections 4 and 8: /api/schema, public. Of the operations see the catalog's ``morePaths``."""
    answer = service.get("/api/schema")
    assert answer.json()["openapi"].startswith("3.1")
    assert answer.headers["Cache-Control"] == "public, no-cache"


def test_pip_can_install_the_client_of_engines(service):
    """Section 8: /client/…."""
    answer = service.get("/client/signals_client-0.1.0-py3-none-any.whl")
    assert answer.status_code == 200
    with zipfile.ZipFile(io.BytesIO(answer.content)) as wheel:
        assert "signals_client/__init__.py" in wheel.namelist()


@pytest.mark.parametrize("path", ["/api/docs", "/accounts/login/", "/accounts/signup/"])
def test_people_read_the_reference_and_sign_in_and_up(service, path):
    """Section 8: /api/docs, /accounts/…."""
    answer = service.get(path)
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("text/html")


def test_the_control_area_is_for_staff(service, user, admin):
    """Section 8: /control/."""
    assert service.get("/control/").headers["Location"].startswith("/accounts/login/")
    assert user.get("/control/").status_code == 403
    assert admin.get("/control/").status_code == 200
