"""What the gate asks of a release with servers on loan."""

from dataclasses import replace

import pytest

from parts.lending.replay.gate_limits import GroupQueuing, LoanEvidence, loaned_servers
from simulator.gate.rules import GateRules

RULES = GateRules()
GOOD = LoanEvidence(
    short_pct=0.4,
    coverage={0.5: 0.52, 0.95: 0.93},
    preemptions=140,
    submissions=26_066,
    days=14.0,
    worst_group=GroupQueuing("vision", 300.0, 290.0),
    with_loans_jct_s=8_521.0,
    without_jct_s=10_479.0,
    champion_jct_s=9_000.0,
)
NAMES = {
    "inference_servers_short",
    "loan_forecast_coverage",
    "loan_preemptions",
    "loan_preemption_ratio",
    "loan_worst_group_queuing",
    "loan_mean_jct",
}


def failed(seen: LoanEvidence, rules: GateRules = RULES) -> set[str]:
    return {one.name for one in loaned_servers(seen, rules) if one.passed is False}


def test_a_release_that_lends_with_care_passes_with_each_figure_and_its_limit() -> None:
    constraints = {one.name: one for one in loaned_servers(GOOD, RULES)}
    assert set(constraints) == NAMES
    assert all(one.passed for one in constraints.values())
    assert constraints["loan_preemptions"].challenger == 10.0
    ratio = constraints["loan_preemption_ratio"]
    assert ratio.challenger == pytest.approx(0.537, abs=1e-3)
    assert "within the limit of 5 % of submissions" in ratio.sentence
    assert "2.5 h under the champion with its loans" in constraints["loan_mean_jct"].sentence


@pytest.mark.parametrize(
    ("change", "blocked"),
    [
        ({"short_pct": 8.1}, {"inference_servers_short"}),
        ({"coverage": {0.5: 0.6, 0.95: 0.8}}, {"loan_forecast_coverage"}),
        ({"preemptions": 5_481}, {"loan_preemptions", "loan_preemption_ratio"}),
        ({"worst_group": GroupQueuing("speech", 900.0, 290.0)}, {"loan_worst_group_queuing"}),
        ({"with_loans_jct_s": 11_000.0}, {"loan_mean_jct"}),
    ],
)
def test_what_loans_cost_beyond_a_limit_blocks(change: dict[str, object], blocked: set[str]) -> None:
    assert failed(replace(GOOD, **change)) == blocked  # type: ignore[arg-type]


def test_limits_are_rules_of_the_gate() -> None:
    strict = GateRules.from_data({"inference_short_limit_pct": 0.1, "loan_preemptions_per_day_limit": 5.0})
    assert failed(GOOD, strict) == {"inference_servers_short", "loan_preemptions"}


def test_a_short_wait_may_grow_by_the_floor_alone() -> None:
    idle = GroupQueuing("vision", 50.0, 0.0)
    assert failed(replace(GOOD, worst_group=idle)) == set()
    assert failed(replace(GOOD, worst_group=replace(idle, with_loans_s=61.0))) == {"loan_worst_group_queuing"}


def test_without_inference_load_the_part_is_refused_with_a_remedy() -> None:
    (only,) = loaned_servers(LoanEvidence(unmeasured="The lake has no inference load of 'venus'."), RULES)
    assert only.passed is False
    assert "no inference load of 'venus'" in only.sentence
    assert "lucid ingest --format inference-load" in only.sentence


def test_what_could_not_be_replayed_neither_passes_nor_blocks() -> None:
    seen = LoanEvidence(short_pct=0.4, unmeasured="the release could not be replayed.")
    unmeasured = {one.name: one.sentence for one in loaned_servers(seen, RULES) if one.passed is None}
    assert set(unmeasured) == NAMES - {"inference_servers_short", "loan_forecast_coverage"}
    assert all("could not be replayed" in sentence for sentence in unmeasured.values())
