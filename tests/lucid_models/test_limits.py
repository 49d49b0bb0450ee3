"""Advice on time limits: never more than was asked for, made of the past, and killing no more than stated."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_logs.ingest import read_jobs_file
from foundation.errors import BadInputError
from lucid_models.evaluation.limits import advised_limits, measured_by_group
from lucid_models.limits.advisor import (
    HOUR_S,
    LimitAdvisor,
    LimitJob,
    LimitSettings,
    written_limit_above,
    written_limit_at_most,
)
from lucid_models.limits.limit_table import LimitTable
from tests.reference import ROOT

RUNS = st.lists(st.floats(1, 50_000), min_size=25, max_size=60)
ASKED_S = 12 * HOUR_S


# Few jobs are enough where a test is not about how many there must be.
SOON = LimitSettings(least_jobs=10)


def job_of(
    number: int, limit_s: float = ASKED_S, owner: str = "ada", submit_s: float | None = None
) -> LimitJob:
    submitted_s = HOUR_S * number if submit_s is None else submit_s
    return LimitJob(str(number), owner, "CPU jobs", submitted_s, limit_s, ((owner, limit_s), (owner,)))


def learn(runs_s: list[float], settings: LimitSettings | None = None) -> tuple[LimitAdvisor, float]:
    """An advisor that saw jobs of one user, one after the other, and the time by then."""
    advisor = LimitAdvisor(settings)
    return advisor, learn_more(advisor, [(job_of(number), run_s) for number, run_s in enumerate(runs_s)])


def learn_more(advisor: LimitAdvisor, jobs: list[tuple[LimitJob, float]], now_s: float = 0.0) -> float:
    for job, run_s in jobs:
        advisor.note(job, advisor.advise(job, now_s))
        advisor.started(job, now_s)
        now_s += min(run_s, job.limit_s)
        advisor.ended(job, run_s)
    return now_s


def columns_of(runs_s: list[float]) -> dict[str, np.ndarray]:
    start_s = 1_000.0 * np.arange(len(runs_s))
    return {
        "submit_s": start_s - 5,
        "start_s": start_s,
        "end_s": start_s + np.minimum(runs_s, ASKED_S),
        "limit_s": np.full(len(runs_s), ASKED_S),
        "account": np.zeros(len(runs_s)),
        "gpus": np.ones(len(runs_s)),
    }


@given(st.floats(0, 5e6))
def test_a_written_limit_is_longer_than_the_run_and_the_least_such(run_s: float) -> None:
    limit_s = written_limit_above(run_s)
    assert written_limit_at_most(run_s) <= run_s < limit_s
    assert written_limit_above(limit_s - 1) == limit_s
    assert written_limit_at_most(limit_s) == limit_s


@given(RUNS, st.floats(60, 2e6), st.tuples(st.floats(0.001, 0.5), st.floats(0.001, 0.5)))
def test_a_higher_risk_advises_no_longer_limit_and_none_more_than_asked(
    runs_s: list[float], asked_s: float, risks: tuple[float, float]
) -> None:
    asked = []
    for risk in sorted(risks):
        # The group's factor is left out: it is what the risk that was taken led to.
        advisor, now_s = learn(runs_s, replace(SOON, risk=risk, step=0.0))
        asked.append(advisor.advise(job_of(999, asked_s), now_s).limit_s)
    assert asked[1] <= asked[0] <= asked_s


@given(RUNS, st.floats(60, 2e6), st.floats(60, 2e6))
def test_a_longer_limit_is_no_riskier(runs_s: list[float], one_s: float, other_s: float) -> None:
    advisor, now_s = learn(runs_s, SOON)
    risks = [advisor.kill_risk(job_of(999), limit_s, now_s) for limit_s in sorted((one_s, other_s))]
    assert 0 < risks[1] <= risks[0] <= 1


@given(RUNS, st.integers(5, 24), st.floats(0.1, 3.0))
def test_runs_that_end_later_change_nothing(runs_s: list[float], place: int, changed_by: float) -> None:
    columns = columns_of(runs_s)
    now_s = columns["start_s"][place]
    later = columns["end_s"] > now_s
    otherwise = columns["end_s"].copy()
    otherwise[later] = np.maximum(columns["start_s"], now_s)[later] + 1 + changed_by * otherwise[later]
    table, changed = (
        LimitTable.of(columns | {"end_s": np.asarray(end_s)}) for end_s in (columns["end_s"], otherwise)
    )
    told, also = (advised_limits(one, "start", LimitSettings())[: place + 1] for one in (table, changed))
    np.testing.assert_array_equal(told, also)


def test_a_new_user_keeps_the_limit_and_is_told_why() -> None:
    advice = LimitAdvisor().advise(job_of(1, owner="new"), 0.0)
    assert advice.limit_s == ASKED_S
    assert advice.sentence() == "You asked for 12 h; keep that: too few jobs like it have ended."


def test_jobs_that_run_alike_are_told_what_would_do() -> None:
    advisor, now_s = learn([2_900.0 + number % 60 for number in range(210)])
    advice = advisor.advise(job_of(999), now_s)
    assert advice.limit_s == HOUR_S
    assert advice.sentence() == (
        "You asked for 12 h; the longest of the last 150 jobs like this took 49.3 min, "
        "and 60 min would do for 99 in 100."
    )
    assert advisor.kill_risk(job_of(999), 600.0, now_s) == 1.0


def test_a_burst_of_short_jobs_hides_no_longer_runs_of_earlier_ones() -> None:
    advisor = LimitAdvisor()
    bursts = [(burst, 10_000.0 if burst < 4 else 600.0) for burst in range(5) for _ in range(300)]
    jobs = [
        (job_of(number, submit_s=86_400.0 * burst), run_s) for number, (burst, run_s) in enumerate(bursts)
    ]
    now_s = learn_more(advisor, jobs)
    advice = advisor.advise(job_of(9_999, submit_s=now_s), now_s)
    assert (advice.longest_s, advice.alike_jobs) == (10_000.0, 1_500)


def test_an_owner_whose_record_is_short_has_the_margin_of_all_and_what_its_own_needed() -> None:
    settings = replace(SOON, usual_jobs=40)
    steady = learn([3_000.0] * 60, settings)[0]
    learn_more(steady, [(job_of(1_000 + number, owner="bob"), 3_000.0) for number in range(15)])
    assert steady.advise(job_of(2_000, owner="bob"), 0.0).limit_s == HOUR_S
    unsteady = learn([3_000.0] * 60, settings)[0]
    runs_s = [1_000.0] * 12 + [4_000.0, 1_000.0]
    learn_more(
        unsteady, [(job_of(1_000 + number, owner="bob"), run_s) for number, run_s in enumerate(runs_s)]
    )
    assert unsteady.advise(job_of(2_000, owner="bob"), 0.0).limit_s >= 3.6 * 4_000
    alone = learn_more(advisor := LimitAdvisor(SOON), [(job_of(number), 3_000.0) for number in range(15)])
    assert advisor.advise(job_of(2_000), alone).why.startswith("too few jobs of its owner")


def test_where_a_job_used_up_its_limit_lately_it_is_kept() -> None:
    advisor, now_s = learn([3_000.0] * 240 + [ASKED_S] + [3_000.0] * 5)
    advice = advisor.advise(job_of(999), now_s)
    assert (advice.limit_s, advice.why) == (ASKED_S, "one of the last jobs like it used up its limit")


def test_a_log_is_measured_by_group_and_every_row_is_accounted_for() -> None:
    columns = columns_of([1_800.0] * 450)
    columns["limit_s"][3] = np.nan
    columns["end_s"][4] = np.nan
    columns["gpus"][-10:] = 0
    table = LimitTable.of(columns)
    assert table.skipped == {"no_limit": 1, "not_ended": 1}
    judged = table.submit_s >= table.submit_s[0] + 2.5 * 86_400
    advised_s = advised_limits(table, "start", LimitSettings())
    rows = measured_by_group(table, advised_s, judged)
    assert {row["group"] for row in rows} == {"all", "GPU jobs"}
    ours = rows[0]
    assert (ours["killed_pct"], ours["ratio_before"], ours["ratio_after"]) == (0.0, 24.0, 1.5)
    with_gpus = judged & table.has_gpus
    assert [row["group"] for row in measured_by_group(table, advised_s, with_gpus)] == ["all"]


def test_a_log_without_limits_is_refused() -> None:
    columns = columns_of([1_800.0] * 30)
    with pytest.raises(BadInputError, match="no_limit"):
        LimitTable.of(columns | {"limit_s": np.full(30, np.nan)})


@pytest.mark.reference
def test_on_a_national_cluster_advice_kills_about_as_many_as_stated() -> None:
    jobs, report = read_jobs_file(str(ROOT / "data/drac_slurm/graham_jobs.csv.gz"), "queue")
    assert len(jobs) == report.rows_in == 133_025
    # Jobs with GPUs alone: a tenth of the log.
    table = LimitTable.of_jobs(jobs[jobs["gpus"] > 0])
    asked_s, run_s = table.limit_s, np.clip(table.run_s, 1, table.limit_s)
    advised_s = advised_limits(table, "start", LimitSettings())
    assert (advised_s <= asked_s).all()
    assert np.median(asked_s / run_s) > 3.6
    assert np.median(advised_s / run_s) < 2.3
    assert ((advised_s < asked_s) & (table.run_s >= advised_s)).mean() < 0.015


def test_of_names_without_end_those_that_ended_last_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lucid_models.limits.advisor.MOST_LIKENESSES", 30)
    advisor = LimitAdvisor(LimitSettings(least_jobs=5))
    jobs = [
        LimitJob(str(number), "u", "CPU jobs", 0.0, 3_600.0, (("alike", number),)) for number in range(100)
    ]
    for job in jobs:
        for _ in range(5):
            advisor.started(job, 0.0)
            advisor.ended(job, 60.0)
    known = [job.job_id for job in jobs if advisor.advise(job, 100.0).alike_jobs]
    assert known == [job.job_id for job in jobs[-30:]]
