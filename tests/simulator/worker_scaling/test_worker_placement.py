"""On which servers workers go."""

from simulator.worker_scaling.server_pools import ServerPool
from simulator.worker_scaling.worker_placement import (
    PlacementPlan,
    ServerRoom,
    WorkerDemand,
    WorkerKind,
    place_workers,
    whole_units,
)

TRAINING, ON_LOAN = ServerPool.TRAINING, ServerPool.ON_LOAN


def on_loan() -> PlacementPlan:
    return PlacementPlan(
        [
            ServerRoom(1, ON_LOAN, 4, has_flexible=True),
            ServerRoom(2, ON_LOAN, 8),
            ServerRoom(3, ON_LOAN, 2, has_base=True, has_flexible=True),
            ServerRoom(4, ON_LOAN, 6, has_base=True),
        ]
    )


def test_the_kinds_of_workers_keep_apart_on_servers_on_loan() -> None:
    assert on_loan().place_gang(ON_LOAN, [2] * 9) == (3, 4, 4, 4, 2, 2, 2, 2, 1)
    assert on_loan().place_flexible(ON_LOAN, 2, 20) == (1, 1, 2, 2, 2, 2, 3, 4, 4, 4)


def test_a_gang_that_does_not_fit_leaves_nothing() -> None:
    plan = on_loan()
    assert plan.place_gang(ON_LOAN, [4] * 5) is None
    assert plan.free_gpus(ON_LOAN) == 20
    assert plan.place_flexible(ON_LOAN, 4, 1) == (1,)  # still one of flexible workers


def test_wide_workers_go_first_and_gangs_try_their_other_pool() -> None:
    plan = PlacementPlan([ServerRoom(0, TRAINING, 8), ServerRoom(9, ON_LOAN, 8)])
    demands = [
        WorkerDemand("one", 1, 4, pools=(TRAINING, ON_LOAN)),
        WorkerDemand("two", 2, 3),
        WorkerDemand("flexible", 1, 2, WorkerKind.FLEXIBLE, (ON_LOAN,)),
    ]
    assert place_workers(plan, demands, 2) == {
        "two": (TRAINING, (0, 0, 0)),
        "one": (ON_LOAN, (9,) * 8),
    }


def test_less_than_a_whole_loaned_worker_is_dropped() -> None:
    plan = PlacementPlan([ServerRoom(4, ON_LOAN, 3), ServerRoom(6, ON_LOAN, 8)])
    demand = WorkerDemand("a", 2, 2, WorkerKind.FLEXIBLE, (ON_LOAN,))
    assert place_workers(plan, [demand], 3) == {"a": (ON_LOAN, (6, 6, 6))}
    assert (plan.free_on(4), plan.free_on(6)) == (3, 2)
    assert whole_units({7: 1, 5: 2, 6: 2}, 3) == {6: 2, 7: 1}
