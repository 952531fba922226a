"""A cursor that is ahead of what is read, where live servers read replicas."""

from concurrent.futures import FIRST_COMPLETED as FIRST
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import pytest
from django.db import connections

from events import replica
from events.columns import new_epoch
from events.feed import read_head
from events.http.cursors import log_cursor
from events.http.refusals import CursorLost
from events.models import Head
from events.writer_queue import WaitEnded
from tests.factories import a_connected_desk

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def replicas(settings: Any) -> None:
    settings.REPLICA = {"HOST": "db2", "PORT": "5432"}


def find(cursor: str) -> Any:
    try:
        return replica.find(cursor)
    except WaitEnded as error:
        return error
    finally:
        connections.close_all()


def test_it_is_waited_for_and_few_wait_at_once():
    head = read_head()
    cursor = log_cursor(head.epoch, head.position + 1)
    with ThreadPoolExecutor() as threads:
        asked: list[Future[Any]] = [threads.submit(find, cursor) for _ in range(replica.PLACES + 1)]
        done, waiting = wait(asked, timeout=60, return_when=FIRST)
        assert [type(each.result()) for each in done] == [WaitEnded]
        assert len(waiting) == replica.PLACES
        a_connected_desk()
        assert {each.result()[1] for each in waiting} == {head.position + 1}


def test_beyond_the_log_it_is_lost(monkeypatch):
    monkeypatch.setattr(replica, "TIMEOUT", 0)
    head = read_head()
    with pytest.raises(CursorLost):
        replica.find(log_cursor(head.epoch, head.position + 1))


def test_of_another_epoch_it_is_lost_and_for_each_epoch_one_reader_waits(
    monkeypatch, django_assert_max_num_queries
):
    monkeypatch.setattr(replica, "TIMEOUT", 0)
    cursor = log_cursor(new_epoch(), 0)
    for most in (3, 1, 1):
        with django_assert_max_num_queries(most), pytest.raises(CursorLost):
            replica.find(cursor)


def test_without_replicas_nothing_is_waited_for(settings):
    settings.REPLICA = None
    head: Head = read_head()
    with pytest.raises(CursorLost):
        replica.find(log_cursor(head.epoch, head.position + 1))
