"""The gate on result tables: what it approves, what it refuses, and how it says why."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.errors import BadInputError, UnknownNameError
from simulator.gate.judge import ReleaseChecks, judge
from simulator.gate.metrics import EstimateCheck, MeasuredWindow, check_estimates, delivered_gpu_h
from simulator.gate.rules import GateRules
from simulator.gate.verdict import Verdict
from simulator.wait_fidelity.grade import WaitGrade

DAY_S = 86_400.0
FINE = EstimateCheck(jobs=600, not_finite=0, not_positive=0)


@dataclass(frozen=True)
class Replay:
    jobs: pd.DataFrame


def replay(waits_s: np.ndarray, *, jobs: int = 600, seed: int = 1, users: int | None = 6) -> Replay:
    """Jobs of seven days in two virtual clusters, of which job i waits `waits_s[i]`."""
    rng = np.random.default_rng(seed)
    submit = np.sort(rng.uniform(0, 7 * DAY_S, jobs))
    duration = rng.lognormal(7, 1.2, jobs)
    waits = np.broadcast_to(np.asarray(waits_s, dtype=float), (jobs,))
    table = pd.DataFrame(
        {
            "job_id": [f"j{i}" for i in range(jobs)],
            "virtual_cluster": np.where(np.arange(jobs) % 3 == 0, "vision", "speech"),
            "user": [None if users is None else f"u{i % users}" for i in range(jobs)],
            "gpus": rng.choice([1, 2, 4, 8], jobs),
            "submit_time_s": submit,
            "first_start_time_s": submit + waits,
            "end_time_s": submit + waits + duration,
            "queuing_delay_s": waits,
            "jct_s": waits + duration,
            "duration_s": duration,
            "preemptions": 0,
            "colocated": False,
        }
    )
    return Replay(table)


def waits(mean_s: float, seed: int = 2, jobs: int = 600) -> np.ndarray:
    return np.random.default_rng(seed).exponential(mean_s, jobs)


def decide(results: dict[str, Replay], *, champion: str | None = "champion", **options: object) -> Verdict:
    given_options = {
        "rules": GateRules(),
        "assumptions": ["Drawn for a test."],
        **options,
    }
    checked = {
        name: given_options.pop(name) for name in ("estimates", "models", "grade") if name in given_options
    }
    latency_ms = given_options.pop("decision_latency_ms", 1.2)
    given_options["checks"] = ReleaseChecks(
        **{"estimates": FINE, **checked},  # type: ignore[arg-type]
        decision_latency_ms=latency_ms,  # type: ignore[arg-type]
    )
    return judge(results, challenger="challenger", champion=champion, **given_options)  # type: ignore[arg-type]


def four(challenger: np.ndarray, champion: np.ndarray, **shape: object) -> dict[str, Replay]:
    return {
        "challenger": replay(challenger, **shape),  # type: ignore[arg-type]
        "champion": replay(champion, **shape),  # type: ignore[arg-type]
        "site_order": replay(champion * 3, **shape),  # type: ignore[arg-type]
        "sjf": replay(champion * 0.2, **shape),  # type: ignore[arg-type]
    }


def constraint(verdict: Verdict, name: str):  # type: ignore[no-untyped-def]
    return next(c for c in verdict.constraints if c.name == name)


def test_an_equal_challenger_is_approved_and_its_losses_are_told() -> None:
    verdict = decide(four(waits(2_000), waits(2_000)))
    assert verdict.approved
    assert verdict.sentence.startswith("Approved: mean JCT is ")
    first, second = verdict.sentence.split("; ")[:2]  # the site's order comes first
    assert first.endswith(" %)")
    assert " under the site's order (-" in first
    assert " under the champion (+0.0 %, 95 % interval +0.0 to +0.0 %), and the upper bound" in second
    assert verdict.objective["change_s"] == 0.0
    assert (verdict.objective["change_low_pct"], verdict.objective["change_high_pct"]) == (0.0, 0.0)
    assert verdict.losses == ("sjf",)
    assert verdict.sentence.endswith(
        "it significantly outperforms the site's order, and SJF significantly outperforms it."
    )
    outcomes = {row["policy"]: row["outcome"] for row in verdict.comparisons}
    assert outcomes == {"champion": "no clear difference", "site_order": "better", "sjf": "worse"}
    assert [row["policy"] for row in verdict.policies][:2] == ["challenger", "champion"]
    unmeasured = ["grade_of_replayed_waits", "p999_queuing_delay"]
    assert [c.name for c in verdict.constraints if not c.passed] == unmeasured


def test_a_worse_challenger_is_refused_by_the_objective() -> None:
    verdict = decide(four(waits(2_000) * 1.6, waits(2_000)))
    assert not verdict.approved
    assert verdict.sentence.startswith("Refused: mean JCT")
    assert "beyond the margin of +2 % or +10 s" in verdict.sentence
    assert verdict.objective["passed"] is False


def test_a_challenger_that_may_be_worse_is_refused_though_its_point_is_within_the_margin() -> None:
    verdict = decide(four(waits(2_000, seed=3), waits(2_000, seed=4)))
    objective = verdict.objective
    assert abs(float(objective["change_pct"] or 0)) < 6
    assert float(objective["change_high_pct"] or 0) > 2
    assert not verdict.approved


def test_a_few_seconds_on_an_idle_cluster_do_not_block() -> None:
    verdict = decide(four(waits(3.0) + 3.0, waits(3.0)), rules=GateRules(objective="mean_queuing_delay_s"))
    assert float(verdict.objective["change_pct"] or 0) > 50
    assert verdict.approved, verdict.sentence


def test_without_a_champion_the_sites_order_is_the_reference_and_that_is_said() -> None:
    results = four(waits(2_000), waits(2_000))
    del results["champion"]
    verdict = decide(results, champion=None)
    assert verdict.approved
    assert verdict.reference == "site_order"
    assert "There is no champion yet: the reference is the site's order." in verdict.assumptions


HARMLESS = GateRules(unproven="publish_harmless")


def test_a_window_in_which_nothing_queues_proves_nothing_and_waits() -> None:
    nothing = {name: replay(np.zeros(600)) for name in ("challenger", "champion", "site_order", "sjf")}
    verdict = decide(nothing)
    assert not verdict.approved
    assert verdict.objective["passed"]  # the same schedule as the champion's
    assert [c.name for c in verdict.failed] == ["window_with_a_queue"]
    assert verdict.sentence.startswith("Refused: next to nothing queues under the site's order, so")
    assert "proves nothing" in verdict.failed[0].sentence
    assert "unproven to publish_harmless" in verdict.failed[0].sentence
    assert not any("does no harm" in said for said in verdict.assumptions)
    assert Verdict.from_dict(json.loads(verdict.to_json())) == verdict


def test_a_first_release_on_an_idle_cluster_goes_live_as_harmless_if_the_operator_says_so() -> None:
    idle = {"challenger": replay(np.full(600, 8.0)), "site_order": replay(np.zeros(600))}
    assert not decide(idle, champion=None).approved
    verdict = decide(idle, champion=None, rules=HARMLESS)
    assert verdict.approved
    assert verdict.sentence.startswith("Approved as harmless: next to nothing queues")
    assert "within the margin of +5 % or +10 s" in verdict.sentence
    assert "a window in which next to nothing queues, P99.9 queuing delay" in verdict.sentence
    assert verdict.sentence.endswith("the site's order significantly outperforms it.")
    harmful = {**idle, "challenger": replay(np.full(600, 150.0))}  # what profiling costs
    assert not decide(harmful, champion=None, rules=HARMLESS).approved
    strict = GateRules(unproven="publish_harmless", site_margin_floor_s=5, site_margin_pct=0.1)
    assert not decide(idle, champion=None, rules=strict).approved


def test_a_queue_in_the_warm_up_alone_proves_nothing() -> None:
    submit = replay(np.zeros(600)).jobs["submit_time_s"].to_numpy()
    early = np.where(submit < 2 * DAY_S, 50_000.0, 0.0)
    results = {"challenger": replay(early * 0.1), "site_order": replay(early)}
    assert decide(results, champion=None).approved
    counted = MeasuredWindow(2 * DAY_S, 7 * DAY_S)
    verdict = decide(results, champion=None, window=counted)
    assert [c.name for c in verdict.failed] == ["window_with_a_queue"]


def test_a_queue_that_a_rivals_preemptions_make_proves_nothing() -> None:
    nothing = {name: replay(np.zeros(600)) for name in ("challenger", "champion", "site_order")}
    verdict = decide(nothing | {"tiresias": replay(np.full(600, 600.0))})
    assert [c.name for c in verdict.failed] == ["window_with_a_queue"]


@given(wait_s=st.floats(0, 400), limit_pct=st.floats(0, 10))
@settings(max_examples=15, deadline=None)
def test_what_proves_is_a_share_of_the_completion_time_under_the_sites_order(
    wait_s: float, limit_pct: float
) -> None:
    results = {"challenger": replay(np.zeros(600)), "site_order": replay(np.full(600, wait_s))}
    rules = GateRules(unproven_queuing_pct=limit_pct, resamples=100)
    found = constraint(decide(results, champion=None, rules=rules), "window_with_a_queue")
    mean_jct_s = results["site_order"].jobs["jct_s"].mean()
    assert found.passed is bool(wait_s > limit_pct / 100 * mean_jct_s)


def test_nobody_creeps_below_the_sites_order_by_small_steps() -> None:
    results = four(waits(2_000), waits(2_000))
    results["site_order"] = replay(waits(2_000) * 0.5)
    verdict = decide(results)
    assert verdict.objective["passed"]
    assert [c.name for c in verdict.failed] == ["not_worse_than_site_order"]
    assert not verdict.approved


def test_a_policy_that_starves_a_few_jobs_is_refused_though_its_mean_is_better() -> None:
    good = waits(4_000)
    starving = good * 0.5
    starving[::150] = 3 * DAY_S  # four jobs of 600
    verdict = decide(four(starving, good), rules=GateRules(margin_pct=100.0))
    assert verdict.objective["passed"]
    assert not verdict.approved
    assert {c.name for c in verdict.failed} >= {"starved_jobs", "longest_wait"}
    assert "blocked by" in verdict.sentence
    assert "starved jobs" in verdict.sentence
    starved = constraint(verdict, "starved_jobs")
    assert (starved.challenger, starved.reference) == (4.0, 0.0)
    assert "Jobs that wait over 24 h: 4 jobs against the reference's 0 jobs" in starved.sentence


def test_starving_gangs_are_not_lost_among_many_small_jobs() -> None:
    good = waits(4_000)
    starving = good * 0.5
    gpus = np.ones(len(good))
    gpus[::150] = 64  # four gangs, which all starve: 1 % of the jobs may
    starving[::150] = 3 * DAY_S
    results = four(starving, good)
    for result in results.values():
        result.jobs["gpus"] = gpus
    verdict = decide(results, rules=GateRules(margin_pct=100.0, starved_floor_pct=1.0))
    assert constraint(verdict, "starved_jobs").passed
    gangs = constraint(verdict, "starved_gangs")
    assert not gangs.passed
    assert "Jobs of 9 to 64 GPUs that wait over 24 h: 4 jobs against the reference's 0 jobs" in gangs.sentence


def test_a_long_tail_blocks_and_is_not_measurable_on_few_jobs() -> None:
    good = waits(4_000, jobs=2_400)
    tail = good.copy()
    tail[:4] = 80_000.0  # under a day: no job starves
    verdict = decide(four(tail, good, jobs=2_400))
    assert [c.name for c in verdict.failed] == ["p999_queuing_delay"]
    few = decide(four(tail[:900], good[:900], jobs=900), rules=GateRules(margin_pct=100))
    assert constraint(few, "p999_queuing_delay").passed is None
    assert "of fewer than 1,000 jobs (900)" in constraint(few, "p999_queuing_delay").sentence


def test_one_user_who_pays_for_all_others_blocks() -> None:
    reference = np.full(600, 3_000.0)
    unfair = np.where(np.arange(600) % 6 == 4, 12_000.0, 500.0)  # user u4 pays
    verdict = decide(four(unfair, reference))
    assert verdict.objective["passed"]
    assert [c.name for c in verdict.failed] == ["fairness_between_users"]
    assert "'u4'" in constraint(verdict, "fairness_between_users").sentence


def test_one_virtual_cluster_that_pays_blocks() -> None:
    reference = np.full(600, 3_000.0)
    unfair = np.where(np.arange(600) % 3 == 0, 8_000.0, 100.0)  # "vision" pays
    verdict = decide(four(unfair, reference, users=None), rules=GateRules(margin_pct=20))
    assert [c.name for c in verdict.failed] == ["fairness_between_virtual_clusters"]


def test_a_log_without_users_is_not_measurable_rather_than_passed() -> None:
    verdict = decide(four(waits(2_000), waits(2_000), users=None))
    users = constraint(verdict, "fairness_between_users")
    assert users.passed is None
    assert users.sentence == "Not measurable: the log names no users."
    assert "fairness between users;" in verdict.sentence
    assert verdict.approved


def test_a_slow_decision_blocks_and_an_untimed_one_is_said_to_be() -> None:
    results = four(waits(2_000), waits(2_000))
    slow = decide(results, decision_latency_ms=900.0)
    assert [c.name for c in slow.failed] == ["decision_latency_ms"]
    assert "2,048 queued jobs" in constraint(slow, "decision_latency_ms").sentence
    untimed = decide(results, decision_latency_ms=None)
    assert constraint(untimed, "decision_latency_ms").passed is None


@pytest.mark.parametrize(
    ("estimates", "said"),
    [
        ([1.0, np.nan, 3.0], "1 not finite, 0 not above zero"),
        ([1.0, np.inf, -np.inf], "2 not finite, 0 not above zero"),
        ([1.0, 0.0, -5.0], "0 not finite, 2 not above zero"),
        ([], "There are no estimates."),
    ],
)
def test_unusable_estimates_are_refused_without_a_replay(estimates: list[float], said: str) -> None:
    results = four(waits(2_000), waits(2_000))
    del results["challenger"]
    verdict = decide(results, estimates=check_estimates(estimates))
    assert not verdict.approved
    assert [c.name for c in verdict.failed] == ["estimates_finite_and_positive"]
    assert said in constraint(verdict, "estimates_finite_and_positive").sentence
    assert "not judged because the challenger's predictions are unusable" in verdict.sentence
    assert Verdict.from_dict(json.loads(verdict.to_json())) == verdict


def test_a_failed_expectation_of_the_estimates_refuses_by_name() -> None:
    failed = replace(FINE, failed_expectations=("duration_predictions.table_has_rows",))
    verdict = decide(four(waits(2_000), waits(2_000)), estimates=failed)
    assert not verdict.approved
    assert "table_has_rows" in constraint(verdict, "estimates_finite_and_positive").sentence


def test_jobs_that_never_end_are_refused() -> None:
    results = four(waits(2_000), waits(2_000))
    jobs = results["challenger"].jobs.copy()
    jobs.loc[[5, 9], ["end_time_s", "jct_s"]] = np.nan
    verdict = decide(results | {"challenger": Replay(jobs)})
    assert [c.name for c in verdict.failed] == ["every_job_ends"]
    assert not verdict.approved
    json.loads(verdict.to_json())


def test_work_left_undone_at_the_end_of_the_window_lowers_utilisation() -> None:
    late = np.where(np.arange(600) > 300, 4 * DAY_S, 0.0)
    rules = GateRules(
        margin_pct=100,
        margin_floor_s=1e9,
        site_margin_floor_s=1e9,
        starved_floor_pct=100,
        longest_wait_floor_s=1e9,
        fairness_floor=1e6,
    )
    verdict = decide(
        four(late, waits(100)), rules=rules, window=MeasuredWindow(start_s=0, end_s=7 * DAY_S, gpus=64)
    )
    assert [c.name for c in verdict.failed] == ["utilisation"]
    assert 0 < (constraint(verdict, "utilisation").challenger or 0) < 100


def test_delivered_work_equals_a_count_by_hand() -> None:
    jobs = replay(np.zeros(2), jobs=2)
    jobs.jobs["submit_time_s"] = [0.0, 100.0]
    jobs.jobs["gpus"] = [2, 4]
    jobs.jobs["duration_s"] = [1_000.0, 3_600.0]
    jobs.jobs["first_start_time_s"] = [0.0, 1_800.0]
    jobs.jobs["end_time_s"] = [1_000.0, 9_000.0]  # slowed down to half its speed
    from simulator.gate.metrics import align

    shared, figures = align({"x": jobs}, MeasuredWindow(0.0, 5_400.0))
    done = delivered_gpu_h(figures["x"], shared, MeasuredWindow(0.0, 5_400.0))
    assert done == pytest.approx((2 * 1_000 + 4 * 3_600 * 0.5) / 3_600)


def test_the_warm_up_is_not_counted() -> None:
    bad_start = np.where(replay(np.zeros(600)).jobs["submit_time_s"] < 2 * DAY_S, 5 * DAY_S, 10.0)
    results = four(bad_start, np.full(600, 10.0))
    assert not decide(results).approved
    verdict = decide(results, window=MeasuredWindow(start_s=2 * DAY_S, end_s=7 * DAY_S))
    assert verdict.approved
    counted = int((results["site_order"].jobs["submit_time_s"] >= 2 * DAY_S).sum())
    assert verdict.policies[0]["jobs"] == counted


def test_one_block_is_too_little_evidence_and_few_are_unreliable() -> None:
    short = four(waits(2_000, jobs=40), waits(2_000, jobs=40), jobs=40)
    one_vc = {n: Replay(r.jobs.assign(virtual_cluster="a")) for n, r in short.items()}
    single = decide(one_vc, window=MeasuredWindow(0.0, DAY_S))
    assert not single.approved
    assert "too little evidence" in single.sentence
    few = decide(one_vc, window=MeasuredWindow(0.0, 3 * DAY_S))
    assert few.approved
    assert few.objective["interval_reliable"] is False
    assert any("unreliable: 3 blocks" in said for said in few.assumptions)


def test_fewer_blocks_than_the_rule_asks_for_approve_nothing_however_good_they_look() -> None:
    short = four(waits(2_000, jobs=40), waits(2_000, jobs=40), jobs=40)
    one_vc = {n: Replay(r.jobs.assign(virtual_cluster="a")) for n, r in short.items()}
    three_days = {"window": MeasuredWindow(0.0, 3 * DAY_S)}
    enough = decide(one_vc, rules=GateRules(min_blocks=3), **three_days)
    assert (enough.approved, enough.objective["blocks"]) == (True, 3)
    refused = decide(one_vc, rules=GateRules(min_blocks=4), **three_days)
    assert refused.objective["change_high_s"] == enough.objective["change_high_s"]  # an interval there is
    assert (refused.approved, refused.objective["passed"]) == (False, False)
    assert "3 block(s)" in refused.sentence
    assert "(at least 4)" in refused.sentence
    without = {name: result for name, result in one_vc.items() if name != "champion"}
    first = decide(without, champion=None, rules=GateRules(min_blocks=4), **three_days)
    assert not first.approved


@pytest.mark.parametrize(
    ("objective", "spoken"),
    [
        ("mean_queuing_delay_s", "mean queuing delay"),
        ("p99_queuing_delay_s", "P99 queuing delay"),
        ("p999_queuing_delay_s", "P99.9 queuing delay"),
    ],
)
def test_every_objective_can_decide(objective: str, spoken: str) -> None:
    rules = GateRules(objective=objective)
    assert decide(four(waits(2_000), waits(2_000)), rules=rules).approved
    worse = decide(four(waits(2_000) * 1.2, waits(2_000)), rules=rules)
    assert not worse.approved
    assert worse.sentence.startswith(f"Refused: {spoken} is")


@pytest.mark.slow
@given(seed=st.integers(0, 50), factor=st.floats(0.3, 3.0))
@settings(max_examples=20, deadline=None)
def test_verdicts_survive_json_and_do_not_depend_on_the_order_of_results(seed: int, factor: float) -> None:
    base = waits(500, seed=seed, jobs=90)
    results = four(base * factor, base, jobs=90)
    rules = GateRules(resamples=200)
    verdict = decide(results, rules=rules)
    backwards = dict(reversed(list(results.items())))
    assert decide(backwards, rules=rules) == verdict
    assert Verdict.from_dict(json.loads(verdict.to_json())) == verdict
    shuffled = {n: Replay(r.jobs.sample(frac=1.0, random_state=seed)) for n, r in results.items()}
    assert decide(shuffled, rules=rules).digest() == verdict.digest()


def test_the_digest_ignores_the_measured_latency_but_not_whether_it_passed() -> None:
    results = four(waits(2_000), waits(2_000))
    first, second = decide(results, decision_latency_ms=3.0), decide(results, decision_latency_ms=4.0)
    assert first.digest() == second.digest()
    assert first != second
    assert decide(results, decision_latency_ms=500.0).digest() != first.digest()


def test_numbers_that_are_not_finite_never_reach_a_verdict_file() -> None:
    verdict = decide(four(waits(2_000), waits(2_000)))
    broken = replace(verdict, subject={"version": float("nan")})
    with pytest.raises(BadInputError, match=r"verdict\.subject\.version is nan"):
        broken.to_dict()


def test_results_that_do_not_fit_together_are_refused_by_name() -> None:
    results = four(waits(2_000), waits(2_000))
    with pytest.raises(UnknownNameError, match=r"'pcs'.*challenger, champion, site_order, sjf"):
        decide(results, champion="pcs")
    with pytest.raises(BadInputError, match="against itself"):
        decide(results, champion="challenger")
    fewer = results | {"sjf": Replay(results["sjf"].jobs.iloc[1:])}
    with pytest.raises(BadInputError, match=r"'sjf' \(599 jobs\) and 'challenger' \(600 jobs\)"):
        decide(fewer)
    bare = results | {"sjf": Replay(results["sjf"].jobs.drop(columns="jct_s"))}
    with pytest.raises(BadInputError, match=r"'sjf' lacks the columns jct_s"):
        decide(bare)
    with pytest.raises(BadInputError, match="No job was submitted"):
        decide(results, window=MeasuredWindow(1e9, 2e9))
    with pytest.raises(BadInputError, match="decision latency of nan"):
        decide(results, decision_latency_ms=float("nan"))


@pytest.mark.parametrize(
    ("settings_given", "said"),
    [
        ({"objective": "speed"}, r"objective 'speed'.*mean_jct_s, mean_pred_err_pct"),
        ({"interval": "t"}, r"interval 't'.*bca, percentile"),
        ({"margin_pct": -1.0}, r"margin_pct is -1\.0.*from 0 to 100"),
        ({"margin_pct": float("nan")}, r"margin_pct is nan"),
        ({"resamples": 10.5}, r"resamples is 10\.5.*whole number from 100"),
        ({"seed": True}, r"seed is True"),
        ({"margn_pct": 3}, r"gate setting 'margn_pct'.*margin_pct"),
    ],
)
def test_rules_name_the_bad_value_and_the_alternatives(settings_given: dict, said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        GateRules.from_data(settings_given)


def test_rules_survive_a_round_trip() -> None:
    rules = GateRules(objective="p999_queuing_delay_s", margin_pct=5, interval="percentile")
    assert GateRules.from_data(rules.to_data()) == rules


def test_an_old_or_broken_verdict_is_refused() -> None:
    data = decide(four(waits(2_000), waits(2_000))).to_dict()
    with pytest.raises(BadInputError, match="format version 99"):
        Verdict.from_dict(data | {"format_version": 99})
    with pytest.raises(BadInputError, match="objective"):
        Verdict.from_dict({k: v for k, v in data.items() if k != "objective"})


def graded(letter: str | None) -> WaitGrade:
    why = "the log does not say when jobs started." if letter is None else "under easy jobs wait 3 h."
    return WaitGrade(grade=letter, why=why, order="easy")


@pytest.mark.parametrize(
    ("letter", "worst", "approved"),
    [("A", "C", True), ("C", "C", True), ("D", "C", False), ("D", "D", True), ("B", "A", False)],
)
def test_waits_that_are_not_those_of_the_log_block_unless_the_rules_allow_it(
    letter: str, worst: str, approved: bool
) -> None:
    rules = GateRules(worst_grade=worst)
    verdict = decide(four(waits(2_000), waits(2_000)), grade=graded(letter), rules=rules)
    assert verdict.approved is approved
    assert [c.name for c in verdict.failed] == ([] if approved else ["grade_of_replayed_waits"])
    assert f"the replayed waits have grade {letter};" in verdict.sentence
    assert (verdict.grade or {})["rule"].startswith("Waits of a replay of the site's order")
    if not approved:
        assert f"worst_grade, now {worst}." in verdict.failed[0].sentence
    assert Verdict.from_dict(json.loads(verdict.to_json())) == verdict


def test_a_log_without_starts_has_no_grade_and_that_is_said() -> None:
    verdict = decide(four(waits(2_000), waits(2_000)), grade=graded(None))
    assert verdict.approved
    assert constraint(verdict, "grade_of_replayed_waits").passed is None
    assert "Not graded: the log does not say" in constraint(verdict, "grade_of_replayed_waits").sentence
    assert "not measured: the grade of the replayed waits" in verdict.sentence


def test_a_verdict_of_the_format_before_is_read() -> None:
    data = decide(four(waits(2_000), waits(2_000))).to_dict()
    old = {name: value for name, value in data.items() if name not in ("site_order", "grade")}
    assert Verdict.from_dict(old | {"format_version": 1}).grade is None
    with pytest.raises(BadInputError, match="format version 3"):
        Verdict.from_dict(data | {"format_version": 3})


def test_with_a_champion_the_first_change_told_is_that_against_the_sites_order() -> None:
    named = {"site_order": "EASY backfilling by time limits"}
    verdict = decide(four(waits(2_000), waits(2_000)), subject=named)
    assert (verdict.site_order or {})["reference_policy"] == "site_order"
    assert " under the site's order, EASY backfilling by time limits (-" in verdict.sentence.split(";")[0]


def test_jobs_that_left_the_logs_queue_without_a_run_are_not_counted() -> None:
    results = four(waits(2_000), waits(2_000))
    for name, one in results.items():
        gone = one.jobs.head(40).assign(
            job_id=[f"w{i}" for i in range(40)], withdrawn=True, first_start_time_s=np.nan, jct_s=1e9
        )
        results[name] = Replay(pd.concat([one.jobs.assign(withdrawn=False), gone], ignore_index=True))
    verdict = decide(results)
    assert verdict.approved
    assert all(row["jobs"] == 600 for row in verdict.policies)
    assert verdict.to_dict() == decide(four(waits(2_000), waits(2_000))).to_dict()
