"""Phase 1: which waiting jobs get their base demand, and where."""

import pytest

from foundation.errors import BadInputError
from simulator.worker_scaling.base_demand import BaseDemand, choose_starts, pools_of
from simulator.worker_scaling.server_pools import ServerPool

TRAINING, ON_LOAN = ServerPool.TRAINING, ServerPool.ON_LOAN


def test_jobs_that_grow_prefer_servers_on_loan() -> None:
    assert pools_of(loanable=False, grows=True) == (TRAINING,)
    assert pools_of(loanable=True, grows=True) == (ON_LOAN, TRAINING)
    assert pools_of(loanable=True, grows=False) == (TRAINING, ON_LOAN)


def test_who_does_not_fit_is_passed_over() -> None:
    queue = [
        BaseDemand("wide", 12),
        BaseDemand("grows", 2, (ON_LOAN, TRAINING)),
        BaseDemand("loanable", 8, (TRAINING, ON_LOAN)),
        BaseDemand("late", 1, (TRAINING, ON_LOAN)),
    ]
    starts = choose_starts(queue, {TRAINING: 8, ON_LOAN: 10}, 3)
    assert starts.starts == (("grows", ON_LOAN, 6), ("loanable", TRAINING, 8), ("late", ON_LOAN, 3))
    assert starts.left_gpus == {TRAINING: 0, ON_LOAN: 1}


def test_less_than_one_loaned_worker_is_refused() -> None:
    with pytest.raises(BadInputError, match="0 loaned workers"):
        choose_starts([], {}, 0)
