"""Which servers on loan go back, and whom that preempts."""

import sys
from itertools import combinations
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from foundation.errors import BadInputError, UnknownNameError
from parts.lending.replay.reclaiming import LoanedServer, ReclaimChoice, choose_reclaim

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


RULES = ("exact", "greedy", "reference", "scf", "random", "highest")
jobs_of_a_server = st.dictionaries(st.integers(0, 6), st.sampled_from([0, 1, 2, 3, 8, 10**12]), max_size=5)
servers_on_loan = st.lists(st.tuples(jobs_of_a_server, jobs_of_a_server), max_size=8).map(
    lambda jobs: [LoanedServer(3 * at, base, flexible) for at, (base, flexible) in enumerate(jobs)]
)


def jobs_preempted(servers: list[LoanedServer[int]], picks: tuple[int, ...]) -> set[int]:
    return {job for server in servers if server.id in picks for job, gpus in server.base.items() if gpus}


@given(servers_on_loan, st.integers(0, 10))
@example([LoanedServer(at, {0: 1}) for at in range(7)], 3)
@example([LoanedServer(at, {0: 1, at: 1}) for at in range(7)], 6)
def test_no_choice_of_servers_preempts_fewer_jobs(servers: list[LoanedServer[int]], count: int) -> None:
    choice = choose_reclaim(servers, count)
    ids = [server.id for server in servers]
    fewest = min(len(jobs_preempted(servers, picks)) for picks in combinations(ids, min(count, len(servers))))
    assert len(choice.preempted) == fewest
    assert choice.optimal


@given(servers_on_loan, st.integers(0, 10), st.sampled_from(RULES), st.randoms(use_true_random=False))
def test_every_rule_returns_what_follows_from_its_picks(
    servers: list[LoanedServer[int]], count: int, rule: str, random: Random
) -> None:
    choice = choose_reclaim(servers, count, rule, seed=5)
    assert len(set(choice.picks)) == len(choice.picks) == min(count, len(servers))
    assert set(choice.preempted) == jobs_preempted(servers, choice.picks)
    assert len(choice.preempted) == len(set(choice.preempted))
    assert choice.scaled_in == {
        (job, server.id): gpus
        for server in servers
        if server.id in choice.picks
        for job, gpus in server.flexible.items()
        if gpus and job not in choice.preempted
    }
    stays = [server for server in servers if server.id not in choice.picks]
    assert choice.collateral_gpus == sum(
        gpus for server in stays for job, gpus in server.base.items() if job in choice.preempted
    )
    # Neither the order of the servers nor that of their jobs decides anything.
    again = [
        LoanedServer(server.id, shuffled(server.base, random), shuffled(server.flexible, random))
        for server in random.sample(servers, len(servers))
    ]
    assert choose_reclaim(again, count, rule, seed=5).picks == choice.picks


def shuffled(gpus_by_job: dict[int, int], random: Random) -> dict[int, int]:
    return dict(random.sample(list(gpus_by_job.items()), len(gpus_by_job)))


def test_the_rivals_rules() -> None:
    servers = [LoanedServer(1, {"a": 2, "b": 2}), LoanedServer(2, {"c": 8}), LoanedServer(3, {}, {"a": 1})]
    assert choose_reclaim(servers, 2, "scf").picks == (3, 2)
    assert choose_reclaim(servers, 2, "highest").picks == (3, 2)
    drawn = {choose_reclaim(servers, 1, "random", seed=seed).picks for seed in range(40)}
    assert drawn == {(1,), (2,), (3,)}


def test_without_a_solver_and_when_it_is_late_the_greedy_choice_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    random = Random(1)
    servers = [LoanedServer(at, {random.randrange(90): 1 for _ in range(6)}) for at in range(100)]
    greedy = choose_reclaim(servers, 50, "greedy")
    late = choose_reclaim(servers, 50, limit_s=1e-6)
    assert len(late.preempted) <= len(greedy.preempted)
    assert not late.optimal
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    assert choose_reclaim(servers, 50) == greedy
