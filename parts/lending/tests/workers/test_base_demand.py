"""Phase 1: which waiting jobs get their base demand, and where."""

import pytest

from foundation.errors import BadInputError
from parts.lending.workers.server_pools import ServerPool
from parts.lending.workers.worker_policy import BaseRoom, pools_of

TRAINING, ON_LOAN = ServerPool.TRAINING, ServerPool.ON_LOAN


def test_jobs_that_grow_prefer_servers_on_loan() -> None:
    assert pools_of(loanable=False, grows=True) == (TRAINING,)
    assert pools_of(loanable=True, grows=True) == (ON_LOAN, TRAINING)
    assert pools_of(loanable=True, grows=False) == (TRAINING, ON_LOAN)


def test_a_demand_that_fits_nowhere_leaves_all_to_those_behind_it() -> None:
    room = BaseRoom({TRAINING: 8, ON_LOAN: 10}, 3)
    assert room.largest == 8
    assert room.take(12, (TRAINING,)) is None
    assert room.take(2, (ON_LOAN, TRAINING)) == (ON_LOAN, 6)
    assert room.take(8, (TRAINING, ON_LOAN)) == (TRAINING, 8)
    assert room.take(1, (TRAINING, ON_LOAN)) == (ON_LOAN, 3)
    assert room.left_gpus == {TRAINING: 0, ON_LOAN: 1}


def test_less_than_one_loaned_worker_is_refused() -> None:
    with pytest.raises(BadInputError, match="0 loaned workers"):
        BaseRoom({}, 0)
