"""Whichever page is the first one after a pause, and so notes the use of its session, is served.

Real transactions: within those of a test Django allows what it refuses in service.
"""

from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from config.accounts.urls import WITH_NOTICE
from tests import factories, staff

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.once]

GIVEN: dict[str, dict[str, Any]] = {
    "account_reset_password_from_key": {"uidb36": "1", "key": "set-password"},
    "mfa_remove_webauthn": {"pk": 1},
}
FOR_VISITORS = {"account_confirm_email", "account_reset_password_from_key"}


@pytest.mark.parametrize("name", sorted(WITH_NOTICE - FOR_VISITORS))
@pytest.mark.parametrize("method", ["get", "post"])
def test_a_page_that_is_one_transaction_may_be_the_first_after_a_pause(name, method):
    here = Client(raise_request_exception=False)
    staff.give_password(here, staff.verified(factories.a_desk().user))
    with time_machine.travel(timezone.now() + timedelta(minutes=6), tick=False):
        answer = getattr(here, method)(reverse(name, kwargs=GIVEN.get(name)))
    assert answer.status_code < 500
