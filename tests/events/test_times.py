"""Times in the contract's format, from Python and from the database."""

from datetime import UTC, datetime, timedelta

import pytest
from django.template.loader import render_to_string
from django.utils import timezone

from desks.models import Desk
from events.columns import ToRfc3339
from events.times import in_zone, parse_rfc3339, relative, to_rfc3339

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("millisecond", [0, 1, 120, 999])
def test_the_database_formats_a_time_like_python(desk, millisecond):
    moment = datetime(2026, 1, 2, 23, 59, 59, millisecond * 1000, UTC)
    Desk.objects.update(created_at=moment)
    assert Desk.objects.values_list(ToRfc3339("created_at"), flat=True).get() == to_rfc3339(moment)


@pytest.mark.once
@pytest.mark.parametrize(
    ("distance", "text"),
    [
        (timedelta(0), "just now"),
        (timedelta(seconds=59), "just now"),
        (timedelta(seconds=60), "1 minute ago"),
        (timedelta(minutes=59, seconds=59), "59 minutes ago"),
        (timedelta(hours=23), "23 hours ago"),
        (timedelta(days=1), "1 day ago"),
        (timedelta(days=29), "29 days ago"),
        (timedelta(days=61), "2 months ago"),
        (timedelta(days=365), "1 year ago"),
        (timedelta(seconds=-1), "in less than a minute"),
        (timedelta(hours=-3), "in 3 hours"),
    ],
)
def test_a_relative_time_is_in_its_largest_unit(distance, text):
    now = datetime(2026, 11, 20, tzinfo=UTC)
    assert relative(now - distance, now) == text


@pytest.mark.once
@pytest.mark.parametrize("zone", ["", "Mars/Base"])
def test_a_time_without_a_zone_or_in_an_unknown_one_is_in_utc(zone):
    at = datetime(2026, 11, 23, 9, 11, tzinfo=UTC)
    assert in_zone(at, "Europe/Berlin") == "23 November 2026, 10:11 CET"
    assert in_zone(at, zone) == "23 November 2026, 09:11 UTC"


@pytest.mark.once
@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("2999-01-01t00:00:00z", "2999-01-01T00:00:00.000Z"),
        ("2999-01-01T00:00:00-05:30", "2999-01-01T05:30:00.000Z"),
        ("2999-01-01T00:00:00+23:59", "2998-12-31T00:01:00.000Z"),
        ("2999-01-01T00:00:00-00:00", "2999-01-01T00:00:00.000Z"),
        ("2999-01-01T00:00:00.1Z", "2999-01-01T00:00:00.100Z"),
        ("2999-01-01T00:00:00.123999999999+00:00", "2999-01-01T00:00:00.123Z"),
    ],
)
def test_every_form_of_rfc_3339_is_read(text, read):
    assert to_rfc3339(parse_rfc3339(text)) == read


@pytest.mark.once
@pytest.mark.parametrize(
    "text",
    [
        "",
        "tomorrow",
        "2999-01-01",
        "2999-01-01T00:00:00",
        "2999-01-01T00:00Z",
        "2999-01-01 00:00:00Z",
        "2999-01-01T00:00:00+0100",
        "2999-01-01T00:00:00+01:60",
        "2999-01-01T00:00:00+24:00",
        "2999-01-01T24:00:00Z",
        "2999-01-01T00:00:00.Z",
        "2999-01-01T00:00:00Z\n",
        "2999-02-29T00:00:00Z",
        "20990101T000000Z",
        "٢٩٩٩-01-01T00:00:00Z",
        "9999-12-31T23:59:59-23:59",
        "0001-01-01T00:00:00+23:59",
    ],
)
def test_no_other_text_is_a_time(text):
    with pytest.raises(ValueError, match=r"Send a time|must be|out of range"):
        parse_rfc3339(text)


@pytest.mark.once
@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00.000Z"),
        ("2015-06-30T23:59:60.250z", "2015-07-01T00:00:00.250Z"),
        ("2016-12-31T15:59:60-08:00", "2017-01-01T00:00:00.000Z"),
        ("2024-03-01T05:29:60+05:30", "2024-03-01T00:00:00.000Z"),
    ],
)
def test_a_leap_second_is_the_second_after_it(text, read):
    assert to_rfc3339(parse_rfc3339(text)) == read


@pytest.mark.once
@pytest.mark.parametrize(
    "text",
    [
        "2016-12-31T23:59:61Z",
        "2016-12-31T23:58:60Z",
        "2016-12-31T22:59:60Z",
        "2016-12-30T23:59:60Z",
        "2016-12-31T23:59:60+01:00",
        "9999-12-31T23:59:60Z",
    ],
)
def test_no_other_second_is_the_sixtieth(text):
    with pytest.raises(ValueError, match=r"second|Send a time"):
        parse_rfc3339(text)


@pytest.mark.once
@pytest.mark.parametrize(("zone", "shown"), [("Asia/Tokyo", "UTC"), ("America/New_York", "EST")])
def test_a_page_shows_the_last_hour_of_the_last_year_in_every_zone(zone, shown):
    at = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    with timezone.override(zone):
        page = render_to_string("time.html", {"at": at})
    assert f":59:59 {shown}" in page
