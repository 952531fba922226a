"""The page of a user's notices."""

import pytest

from desks.models import NoticeChoice, QueuedNotice
from desks.models.notice import OF_A_DESK
from tests.factories import a_staff_user
from tests.notices import send
from tests.pages import words
from tests.staff import a_client

pytestmark = [pytest.mark.django_db, pytest.mark.once]

NOTICES = "/notices"
ALL = [kind.value for kind in OF_A_DESK]


def wanted(browser):
    return browser.get(NOTICES).context["form"]["kinds"].value()


def test_everything_is_told_until_it_is_turned_off(owner, desk):
    assert wanted(owner) == ALL
    assert owner.post(NOTICES, {"kinds": ["silence"]}).status_code == 302
    assert wanted(owner) == ["silence"]
    assert set(NoticeChoice.objects.get().off) == set(ALL) - {"silence"}
    owner.post(NOTICES, {"kinds": ALL})
    assert NoticeChoice.objects.get().off == []


def test_what_is_not_offered_cannot_be_turned_off(owner):
    assert owner.post(NOTICES, {"kinds": ["security"]}).status_code == 422
    owner.post(NOTICES, {})
    assert NoticeChoice.objects.get().off == ALL


def test_a_kind_of_a_later_release_that_is_off_stays_off(owner, desk):
    NoticeChoice.objects.create(user=desk.user, off=["weather", "silence"])
    owner.post(NOTICES, {"kinds": ALL})
    assert NoticeChoice.objects.get().off == ["weather"]


def test_staff_choose_among_their_own_notices(db):
    browser = a_client(a_staff_user())
    assert wanted(browser) == ["operations"]
    assert browser.post(NOTICES, {"kinds": ["silence"]}).status_code == 422


def test_a_test_takes_the_way_of_every_notice_and_one_waits_at_most(owner, member):
    for _ in range(2):
        owner.post(f"{NOTICES}/test")
    assert QueuedNotice.objects.count() == 1
    assert "The test is on its way." in words(owner.get(NOTICES))
    (message,) = send()
    assert (message.subject, message.to) == ("A test notice", [member.email])
    assert "cannot be turned off" not in message.body + message.alternatives[0][0]
