"""One decision on servers on loan: numbers within the limits, choices by the rules, words that say why."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foundation.errors import BadInputError
from parts.lending.live.loan_plan import InferenceNeed, LoanLimits, PlannedServer, plan_loans
from parts.lending.replay.orchestrator import share_of_servers
from parts.lending.replay.settings import LoanSettings

RULES = LoanSettings(headroom=0.0)


def lent(name: str, **base: int) -> PlannedServer:
    return PlannedServer(name, 8, True, base)


# Lyra, figure 5: a on 1 and 2; b on 3; c on 4 and 5; d on 5 and 6.
FIGURE_5 = [
    lent("s1", a=8),
    lent("s2", a=8),
    lent("s3", b=8),
    lent("s4", c=8),
    lent("s5", c=2, d=2),
    lent("s6", d=8),
]


@pytest.mark.parametrize("rule", ["exact", "reference", "greedy"])
def test_the_papers_figure_5(rule: str) -> None:
    plan = plan_loans(FIGURE_5, InferenceNeed(servers=2), LoanSettings(headroom=0.0, reclaim=rule))
    assert (plan.take_back, plan.preempts, plan.collateral_gpus) == (("s1", "s2"), ("a",), 0)
    assert plan.sentences[1:3] == (
        f"Take back s1, s2, in this order, by the rule {rule}.",
        "s1: preempts job a.",
    )
    assert plan.sentences[3] == "s2: its jobs are preempted already."


def test_flexible_workers_go_before_jobs_and_names_are_counted_as_people_do() -> None:
    servers = [
        PlannedServer("i10", 8, True, {"a": 2}, {"b": 4}),
        PlannedServer("i9", 8, True, {}, {"b": 4}),
        PlannedServer("i2", 8, True),
        PlannedServer("i1", 8, True, {"keep": 1}, may_move=False),
    ]
    plan = plan_loans(servers, InferenceNeed(usage=0.5), RULES)
    assert (plan.take_back, plan.preempts, plan.scales_in) == (("i2", "i9"), (), {("b", "i9"): 4})
    plan = plan_loans(servers, InferenceNeed(usage=1.0), RULES)
    assert (plan.take_back, plan.preempts, plan.short) == (("i2", "i9", "i10"), ("a",), 1)
    free = [PlannedServer(f"i{number}", 8, False, may_move=number != 2) for number in (10, 9, 2, 1)]
    plan = plan_loans(free, InferenceNeed(forecast=0.25), RULES)
    assert (plan.lend, plan.sentences[1]) == (
        ("i1", "i9", "i10"),
        "Lend i1, i9, i10: the first that are idle.",
    )


def test_lending_by_demand_lends_what_is_wanted() -> None:
    servers = [lent("i1", a=4), *(PlannedServer(f"i{number}", 8, False) for number in range(2, 7))]
    rules = LoanSettings(headroom=0.0, lend="demand")
    assert plan_loans(servers, InferenceNeed(usage=0.0), rules, wanted_gpus=13).lend == ("i2", "i3")
    assert plan_loans(servers, InferenceNeed(usage=0.0), rules, wanted_gpus=4).lend == ()
    with pytest.raises(BadInputError, match="demand of the training jobs is not given"):
        plan_loans(servers, InferenceNeed(usage=0.0), rules)


@pytest.mark.parametrize("need", [InferenceNeed(), InferenceNeed(1.5), InferenceNeed(float("nan"))])
def test_a_need_that_is_none_is_refused(need: InferenceNeed) -> None:
    with pytest.raises(BadInputError):
        plan_loans(FIGURE_5, need, RULES)


servers_of = st.lists(
    st.builds(
        PlannedServer,
        st.just(""),
        st.just(8),
        st.booleans(),
        st.dictionaries(st.sampled_from("abcd"), st.integers(1, 2), max_size=3),
        st.dictionaries(st.sampled_from("efgh"), st.integers(1, 2), max_size=1),
        st.booleans(),
        st.booleans(),
    ),
    max_size=12,
)


@given(
    drawn=servers_of,
    usage=st.floats(0, 1),
    headroom=st.floats(0, 0.5),
    rule=st.sampled_from(["exact", "greedy", "reference", "scf", "random", "highest"]),
    limits=st.builds(LoanLimits, st.integers(0, 4), st.integers(0, 6)),
)
def test_headroom_is_never_lent_and_only_what_may_move_moves(
    drawn: list[PlannedServer], usage: float, headroom: float, rule: str, limits: LoanLimits
) -> None:
    servers = {
        f"i{at}": PlannedServer(
            f"i{at}", 8, s.on_loan, s.base if s.on_loan else {}, s.flexible if s.on_loan else {},
            s.counts, s.may_move,
        )
        for at, s in enumerate(drawn)
    }  # fmt: skip
    rules = LoanSettings(headroom=headroom, reclaim=rule)
    plan = plan_loans(list(servers.values()), InferenceNeed(usage), rules, limits)
    up = [server for server in servers.values() if server.counts]
    after = sum(server.on_loan for server in up) + len(plan.lend)
    after -= sum(servers[name].counts for name in plan.take_back)
    kept = share_of_servers(usage, len(up)) + share_of_servers(headroom, len(up))
    assert after <= max(0, min(len(up) - kept, len(up) - limits.least_kept, limits.most_lent)) + plan.short
    assert not (plan.lend and plan.short)
    assert all(not servers[name].on_loan and servers[name].may_move for name in plan.lend)
    assert all(servers[name].on_loan for name in plan.take_back)
    assert all(servers[name].may_move or not servers[name].counts for name in plan.take_back)
    gone = set(plan.take_back)
    assert {job for name in gone for job in servers[name].base} == set(plan.preempts)
    assert len(set(plan.lend)) == len(plan.lend)
    assert len(gone) == len(plan.take_back)
