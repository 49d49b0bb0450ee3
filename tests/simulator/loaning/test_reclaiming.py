"""Which servers on loan go back, and whom that preempts."""

import pytest

from foundation.errors import BadInputError, UnknownNameError
from simulator.loaning.reclaiming import LoanedServer, ReclaimChoice, choose_reclaim

# Lyra, figure 5: a on 1 and 2, b on 3, c on 4 and 5, d on 5 and 6.
FIGURE_5 = [
    LoanedServer(1, {"a": 8}),
    LoanedServer(2, {"a": 8}),
    LoanedServer(3, {"b": 8}),
    LoanedServer(4, {"c": 8}),
    LoanedServer(5, {"c": 2, "d": 2}),
    LoanedServer(6, {"d": 8}),
]


@pytest.mark.parametrize("rule", ["exact", "greedy", "reference"])
@pytest.mark.parametrize(
    ("count", "picks", "preempted", "collateral_gpus"),
    [
        (0, set(), set(), 0),
        (1, {3}, {"b"}, 0),
        (2, {1, 2}, {"a"}, 0),
        (3, {1, 2, 3}, {"a", "b"}, 0),
        (6, {1, 2, 3, 4, 5, 6}, {"a", "b", "c", "d"}, 0),
        (7, {1, 2, 3, 4, 5, 6}, {"a", "b", "c", "d"}, 0),
    ],
)
def test_the_papers_figure_5(
    rule: str, count: int, picks: set[int], preempted: set[str], collateral_gpus: int
) -> None:
    choice = choose_reclaim(FIGURE_5, count, rule)
    assert set(choice.picks) == picks
    assert set(choice.preempted) == preempted
    assert choice.collateral_gpus == collateral_gpus


def test_idle_servers_go_first_and_then_those_with_flexible_workers_only() -> None:
    servers = [
        LoanedServer(0, {"a": 8}),
        LoanedServer(1, {}, {"b": 6}),
        LoanedServer(2, {"b": 4}, {"a": 2}),
        LoanedServer(3, {}, {"a": 3, "c": 1}),
        LoanedServer(4),
    ]
    assert choose_reclaim(servers, 3) == ReclaimChoice(
        picks=(4, 3, 1),
        preempted=(),
        scaled_in={("a", 3): 3, ("c", 3): 1, ("b", 1): 6},
        collateral_gpus=0,
        optimal=True,
    )
    # Of the two jobs, a leaves nothing idle elsewhere; b loses flexible workers with server 1, too.
    assert choose_reclaim(servers, 4).preempted == ("a",)


def test_a_bad_question_is_an_error_with_its_value() -> None:
    with pytest.raises(UnknownNameError, match="'cheapest'"):
        choose_reclaim(FIGURE_5, 1, "cheapest")
    with pytest.raises(BadInputError, match="-1"):
        choose_reclaim(FIGURE_5, -1)
    with pytest.raises(BadInputError, match="Server 3 is on loan twice"):
        choose_reclaim([*FIGURE_5, LoanedServer(3)], 1)
    with pytest.raises(BadInputError, match="'e' holds -2 GPUs on server 7"):
        choose_reclaim([LoanedServer(7, {"e": -2})], 1)
