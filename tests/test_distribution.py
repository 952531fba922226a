"""Files that share servers are one unit of work."""

import pytest
from xdist.scheduler import LoadFileScheduling, LoadScopeScheduling

from tests.distribution import TOGETHER, WITH_WEB, Distribution, unit_of

pytestmark = pytest.mark.once


def test_xdist_still_asks_by_this_name_for_the_unit_of_a_test():
    assert "_split_scope" in LoadScopeScheduling.schedule.__code__.co_names
    assert "_split_scope" in vars(LoadFileScheduling)


@pytest.mark.parametrize("shared", TOGETHER)
def test_files_that_share_servers_are_one_unit(shared):
    distribution = object.__new__(Distribution)
    tests = (f"{shared}one.py::test_it[a::b]", f"{shared}other.py::TestIt::test_it")
    assert {distribution._split_scope(test) for test in tests} == {shared}
    assert (
        distribution._split_scope("tests/events/test_log.py::test_it") == "tests/events/test_log.py"
    )


def test_so_are_those_that_share_a_service_from_several_folders():
    assert {unit_of(f"{file}.py") for file in WITH_WEB} == {WITH_WEB[0]}
