"""One fault of each kind under load. ``make drills`` causes many."""

import pytest

from tests.drills import faults
from tests.drills.drill import drill
from tests.drills.stage import needs_servers, stage

pytestmark = [pytest.mark.processes, pytest.mark.once, needs_servers]


@pytest.fixture
def staged():
    with stage(customers=2, away=0.5, like_a_disk=False) as staged:
        yield staged


def test_whatever_fails_nothing_accepted_is_lost_and_nothing_is_done_twice(staged):
    some = [
        faults.redis_is_down,  # first: no database fault may explain a refusal
        faults.the_machine_is_busy,
        faults.the_server_is_stopped,
        faults.a_worker_is_killed,
        faults.connections_are_cut,
        faults.postgresql_is_down,
        faults.clients_hang_up,
        *([faults.the_disk_is_full] if staged.disk else []),
    ]
    row = drill(staged, "each", some, pause=0.2, rest=0.05)
    assert row.wrong() == []
    assert row.accepted > 100
    assert row.shared > 0
