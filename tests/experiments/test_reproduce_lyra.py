"""`lucid reproduce lyra`: each printed number has a row; windows are drawn alike; claims say what holds."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from experiments.reproduction.lyra.claims import FAILS, HOLDS, NOT_MEASURED, WEAKER, LyraClaim, claims_frame
from experiments.reproduction.lyra.evaluation import LyraEvaluation, evaluate_lyra
from experiments.reproduction.lyra.figures import curve_measures, printed_measures, resampled_measures
from experiments.reproduction.lyra.inputs import input_rows
from experiments.reproduction.lyra.outcomes import LyraOutcome
from experiments.reproduction.lyra.page import report_of
from experiments.reproduction.lyra.plan import EvaluationPlan, full_plan, quick_plan
from experiments.reproduction.lyra.published import (
    LyraRow,
    PublishedNumber,
    frame_of,
    read_published,
    set_beside,
)
from experiments.reproduction.lyra.reasons import TESTBED, reason
from experiments.reproduction.lyra.replays import LyraRun, replay_all
from experiments.reproduction.lyra.rules_alone import choices, drawn_instances, simulated_instances
from experiments.reproduction.lyra.schemes import BASELINE, BY_KEY, FORTNIGHT, RESAMPLES, SJF, WINDOWS
from experiments.reproduction.lyra.spreads import answering_all, figure, jct, queuing, ratio, spread
from experiments.reproduction.lyra.statements import OUR_CLAIMS, PUBLISHED_CLAIMS
from experiments.reproduction.lyra.tables import TABLES, table_measures
from experiments.reproduction.lyra.windows import (
    DAY_S,
    LyraWindow,
    window_jobs,
    window_load,
    with_drawn_flags,
)
from experiments.reproduction.report import write_report
from foundation.errors import BadInputError
from tests.reference import ROOT

FIGURES = (
    "preemptions",
    "preemption_ratio",
    "scalings",
    "flexible_share",
    "collateral",
    "training",
    "overall",
    "on_loan",
)


def outcome(queuing_s: list[float], jct_s: list[float], **figures: float) -> LyraOutcome:
    hours = np.full(24, 0.5)
    return LyraOutcome(
        np.array(queuing_s), np.array(jct_s), np.array([True] * len(jct_s)), hours, hours, hours, figures
    )


# -- published numbers ---------------------------------------------------------------------------------------


@pytest.mark.reference
def test_every_printed_number_has_a_measure_or_a_reason() -> None:
    published = read_published(ROOT)
    assert len(published) == len({number.row.key for number in published}) == 312
    simulated = table_measures() | printed_measures() | resampled_measures()
    of_rules = {
        ("7.3", "", "Lyra", metric) for metric in ("optimum equalled below servers", "optimum slower x")
    }
    of_rules |= {
        ("7.3", "", "Lyra", "more preemptions above 60 servers %"),
        ("7.3", "", "Lyra", "servers of the optimum that Lyra picks %"),
        ("7", "", "Lyra", "reclaiming time ms low"),
        ("7", "", "Lyra", "reclaiming time ms high"),
        ("5.2", "", "Lyra", "knapsack time s at 354 items x 245 GPUs"),
    }
    without = [
        number
        for number in published
        if number.row.key not in set(simulated) | set(input_rows(ROOT)) | of_rules
    ]
    # The testbed of section 7.2, 7.5 and Table 10, ByteDance's own cluster, and its own series.
    assert {number.row.table.split(" (")[0] for number in without} == {"Table 10", "Fig 2", "6", "7.2", "7.5"}
    assert all(number.verdict in ("no", "other series") for number in without)
    assert all("quick" not in reason(number.row.key) for number in without)


@pytest.mark.reference
def test_measures_stand_only_beside_what_was_printed_or_say_that_they_are_ours() -> None:
    printed = {number.row.key for number in read_published(ROOT)}
    for key in printed_measures():
        assert key in printed, key
    for table in TABLES:
        schemes = {scheme for where, _, scheme, _ in table_measures() if where == table}
        assert "SJF alone" in schemes, table


def test_a_number_without_a_measure_says_why() -> None:
    published = [
        PublishedNumber(LyraRow("Table 5", "-", "Baseline", "queue mean s", 3072.0), "trend", ""),
        PublishedNumber(
            LyraRow("Table 10 (testbed)", "overall", "Lyra", "queue p95 s", 738.0), "no", "a fault"
        ),
    ]
    measured = {
        published[0].row.key: LyraRow(*published[0].row.key, None, 10.0, 8.0, 12.0, 9.0, "two windows")
    }
    rows = set_beside(published, measured, {number.row.key: reason(number.row.key) for number in published})
    assert rows[0] == LyraRow(
        "Table 5", "-", "Baseline", "queue mean s", 3072.0, 10.0, 8.0, 12.0, 9.0, "two windows"
    )
    assert rows[1].ours is None
    assert rows[1].remark == f"{TESTBED}; a fault"
    columns = {"table", "scheme", "metric", "published", "ours", "remark"}
    assert columns <= set(frame_of(rows).columns)


def test_missing_reference_data_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"published\.csv is not there"):
        read_published(tmp_path)


# -- windows -------------------------------------------------------------------------------------------------


def test_drawn_flags_hold_their_shares_of_the_gpu_time() -> None:
    rng = np.random.default_rng(0)
    jobs = pd.DataFrame(
        {
            "job_id": np.arange(4_000),
            "submit_s": np.sort(rng.integers(0, 14 * DAY_S, 4_000)),
            "duration_s": rng.integers(10, 10_000, 4_000),
            "gpus": rng.choice([1, 2, 4, 8, 16], 4_000, p=[0.6, 0.1, 0.1, 0.15, 0.05]),
        }
    )
    drawn = with_drawn_flags(jobs, 5)
    gpu_time = drawn["gpus"] * drawn["duration_s"]
    assert gpu_time[drawn["elastic"] == 1].sum() / gpu_time.sum() == pytest.approx(0.36, abs=0.005)
    assert gpu_time[drawn["fungible"] == 1].sum() / gpu_time.sum() == pytest.approx(0.21, abs=0.005)
    assert (drawn["gpus_per_worker"] * drawn["workers_min"] == drawn["gpus"]).all()
    elastic = drawn[drawn["elastic"] == 1]
    assert (elastic["workers_max"] == 2 * elastic["workers_min"]).all()
    assert (elastic["workers_min"] >= 2).all()
    assert (drawn["gpus_per_worker"] <= 8).all()
    pd.testing.assert_frame_equal(drawn, with_drawn_flags(jobs, 5))
    assert (drawn["elastic"] != with_drawn_flags(jobs, 6)["elastic"]).any()


@pytest.mark.reference
def test_windows_are_different_draws_of_equal_demand() -> None:
    def demand(window: LyraWindow) -> float:
        jobs = window_jobs(ROOT, window)
        inside = np.minimum(jobs["duration_s"], window.days * DAY_S - jobs["submit_s"])
        return float((jobs["gpus"] * inside).sum() / (8 * window.training_servers * window.days * DAY_S))

    assert [demand(window) for window in WINDOWS] == pytest.approx(
        [demand(FORTNIGHT)] * len(WINDOWS), rel=0.02
    )
    first, second = (window_jobs(ROOT, window) for window in WINDOWS[:2])
    assert (first["duration_s"].to_numpy() == second["duration_s"].to_numpy()).all()
    assert (first["elastic"].to_numpy() != second["elastic"].to_numpy()).any()
    loads = [window_load(ROOT, window)["usage"] for window in WINDOWS[:3]]
    assert len({float(load.sum()) for load in loads}) == 3
    assert all(len(load) == 4_032 for load in loads)


@pytest.mark.reference
def test_resampled_traces_are_whole_days_of_the_fortnight() -> None:
    fortnight = window_jobs(ROOT, FORTNIGHT)
    per_day = set(np.bincount(fortnight["submit_s"] // DAY_S))
    for window in RESAMPLES[:3]:
        jobs = window_jobs(ROOT, window)
        assert jobs["submit_s"].is_monotonic_increasing
        assert set(np.bincount(jobs["submit_s"] // DAY_S)) <= per_day
        assert len(np.bincount(jobs["submit_s"] // DAY_S)) == 10


# -- measures and claims -------------------------------------------------------------------------------------


def test_a_spread_is_over_windows_that_have_the_schemes() -> None:
    windows = [
        {BASELINE: outcome([10, 30], [100, 120]), SJF: outcome([5, 5], [90, 90])},
        {BASELINE: outcome([40, 40], [100, 100]), SJF: outcome([10, 10], [50, 50])},
        {BASELINE: outcome([1, 1], [1, 1])},
    ]
    gains = spread(ratio(queuing(BASELINE), queuing(SJF)), windows)
    assert gains is not None
    assert gains.values == (4.0, 4.0)
    assert (gains.mean, gains.low, gains.high) == (4.0, 4.0, 4.0)
    assert spread(jct("lyra"), windows) is None
    assert spread(queuing(BASELINE, 50), windows[:1]).values == (20.0,)  # type: ignore[union-attr]
    assert spread(ratio(jct(BASELINE), figure(BASELINE, "preemptions")), windows) is None


def test_what_is_read_beside_each_other_is_of_the_same_windows() -> None:
    both = {BASELINE: outcome([10], [100]), SJF: outcome([5], [90])}
    one = {BASELINE: outcome([40], [100])}
    beside = [queuing(BASELINE), queuing(SJF)]
    assert answering_all(beside, [one, both]) == [both]
    assert answering_all([*beside, queuing("nowhere")], [one, both]) == [both]
    assert answering_all([queuing("nowhere")], [one, both]) == [one, both]


def test_claims_say_what_holds_and_by_how_much() -> None:
    window = {"a": outcome([100], [200]), "b": outcome([80], [199])}
    strong = LyraClaim("b queues less", "Table 5", 1.3, "x", ratio(queuing("a"), queuing("b")))
    weak = LyraClaim("b ends sooner", "Table 5", 1.3, "x", ratio(jct("a"), jct("b")))
    false = LyraClaim("a queues less", "Table 5", 1.3, "x", ratio(queuing("b"), queuing("a")))
    bound = LyraClaim("b queues for less than 50 s", "Table 5", None, "s", queuing("b"), 50.0, "below")
    unknown = LyraClaim("c ends sooner", "Table 5", None, "x", jct("c"))
    frame = claims_frame([strong, weak, false, bound, unknown], [window, window], [])
    assert frame["verdict"].tolist() == [HOLDS, WEAKER, FAILS, FAILS, NOT_MEASURED]
    assert frame["holds"].tolist() == [True, True, False, False, None]
    assert frame["holds_on"].tolist() == [2, 2, 0, 0, 0]
    assert frame["ours"].tolist()[:2] == pytest.approx([1.25, 200 / 199])


def test_every_claim_and_curve_is_about_schemes_that_are_replayed() -> None:
    replayed = {run.scheme.key for run in full_plan().runs}
    full = {key: outcome([1.0], [2.0], **dict.fromkeys(FIGURES, 1.0)) for key in BY_KEY}
    assert replayed == set(BY_KEY)
    for claim in (*PUBLISHED_CLAIMS, *OUR_CLAIMS):
        if claim.where != "not asked":  # there everything is equal, and a share of nothing is asked
            assert np.isfinite(claim.measure(full)), claim.statement
    for key, measure in (table_measures() | curve_measures() | printed_measures()).items():
        assert np.isfinite(measure(full)), key


@pytest.mark.parametrize("plan", [full_plan(), quick_plan()], ids=["full", "quick"])
def test_no_run_of_a_plan_stands_twice(plan: EvaluationPlan) -> None:
    assert len(plan.runs) == len(set(plan.runs))
    assert {run.window for run in plan.runs} == {*plan.windows, plan.busy, *plan.resamples}


# -- rules by themselves -------------------------------------------------------------------------------------


@pytest.mark.reference
def test_exact_reclaiming_is_the_optimum_of_the_simulated_decisions() -> None:
    some = simulated_instances(ROOT)[:20]
    by_rule = (choices(some, rule) for rule in ("exact", "reference", "scf"))
    for exact, *others in zip(*by_rule, strict=True):
        assert len(exact.preempted) <= min(len(choice.preempted) for choice in others)


def test_drawn_decisions_fill_their_servers() -> None:
    (first, *_), (again, *_) = drawn_instances(), drawn_instances()
    assert first == again
    held = [sum(server.base.values()) for server in first.servers]
    assert max(held) <= 8
    assert sum(held) >= 0.9 * 8 * len(held)


def test_outcomes_come_back_whole(tmp_path: Path) -> None:
    saved = outcome([1.0, 2.0], [3.0, 4.0], preemptions=3.0)
    saved.save(tmp_path / "one.npz")
    loaded = LyraOutcome.load(tmp_path / "one.npz")
    assert loaded.figures == saved.figures
    np.testing.assert_array_equal(loaded.queuing_s, saved.queuing_s)
    np.testing.assert_array_equal(loaded.on_loan, saved.on_loan)


# -- replays -------------------------------------------------------------------------------------------------

DAY = LyraWindow("a day", 40, 47, days=1)
SOME = (BASELINE, SJF, "loan_lyra", "scale_pollux", "basic", "basic_demand")


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> tuple[LyraEvaluation, Path]:
    """A day of the fortnight on half of its servers, under a few schemes."""
    folder = tmp_path_factory.mktemp("replays")
    resample = LyraWindow("a resampled day", 40, 47, days=1, days_seed=3)
    runs = [LyraRun(window, BY_KEY[key]) for window in (DAY, resample) for key in SOME]
    plan = EvaluationPlan((DAY,), DAY, (resample,), tuple(runs))
    return evaluate_lyra(ROOT, folder, plan=plan), folder


@pytest.mark.reference
def test_replays_are_kept_and_not_done_again(evaluated: tuple[LyraEvaluation, Path]) -> None:
    done, folder = evaluated
    written = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert len(written) == 2 * len(SOME)
    again = replay_all(ROOT, done.plan.runs, folder)
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == written
    assert {run.scheme.key for run in again} == set(SOME)


@pytest.mark.reference
def test_a_day_has_every_printed_number_and_says_what_it_lacks(
    evaluated: tuple[LyraEvaluation, Path],
) -> None:
    done, _ = evaluated
    rows = {row.key: row for row in done.rows}
    assert {number.row.key for number in read_published(ROOT)} <= set(rows)
    assert all(row.ours is not None or row.remark for row in done.rows)
    basic = rows["Table 5", "Basic", "Lyra", "JCT mean s"]
    assert basic.published == 11_236.0
    assert basic.ours is not None
    # Fewer GPUs than jobs ask for: order, scaling and loans each shorten the queue.
    waits = [rows["Table 5", "-", scheme, "queue mean s"].ours for scheme in ("Baseline", "SJF alone")]
    assert waits[0] is not None
    assert waits[1] is not None
    queue = rows["Table 5", "Basic", "Lyra", "queue mean s"].ours
    assert queue is not None
    assert queue < waits[1] < waits[0]
    assert "quick" in rows["Table 5", "Ideal", "Lyra", "JCT mean s"].remark
    verdicts = dict(zip(done.claims["claim"], done.claims["verdict"], strict=True))
    assert verdicts["Lyra (Basic) shortens queuing beside FIFO"].startswith(HOLDS)
    assert verdicts["Ideal has the shortest JCT of all scenarios"] == NOT_MEASURED


@pytest.mark.reference
def test_lending_on_demand_keeps_loaned_servers_busier(evaluated: tuple[LyraEvaluation, Path]) -> None:
    by_scheme = evaluated[0].outcomes[DAY]
    assert by_scheme["basic_demand"].figures["on_loan"] > by_scheme["basic"].figures["on_loan"] > 0
    assert by_scheme["basic"].on_loan.any()
    assert not by_scheme[BASELINE].on_loan.any()
    assert (by_scheme["basic"].usage <= 1).all()


@pytest.mark.reference
def test_the_report_has_claims_tables_and_pictures(
    evaluated: tuple[LyraEvaluation, Path], tmp_path: Path
) -> None:
    files = write_report(report_of(evaluated[0], "lucid reproduce lyra"), tmp_path)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "| Lyra (Basic) shortens queuing beside FIFO | Table 5 | 1.53 x |" in text
    assert "SJF alone" in text
    assert TESTBED in text
    pictures = {path.name for path in files if path.suffix == ".png"}
    assert {"fig_8.png", "fig_9.png", "fig_10.png", "fig_12.png", "fig_14_and_15.png"} <= pictures
    numbers = pd.read_csv(tmp_path / "table_5.csv")
    assert {"published", "ours", "low", "high", "fortnight", "remark"} <= set(numbers.columns)
