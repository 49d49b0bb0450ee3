"""Which pairs are measured first: the model's uncertainty, and the study of what an order is worth."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from experiments.profiling.sampling_page import RUN_BUDGET_S, draw_curves, runs_table
from experiments.profiling.sampling_study import (
    EVERYTHING,
    SampledPairs,
    compare_orders,
    judge,
    random_order,
    replay,
)
from lucid_models.packing.pairwise_training import fit_pairwise
from lucid_models.packing.tree import PackingSettings
from pipeline.profiling.pictures import draw_profiles
from pipeline.profiling.uncertainty import FIRST_PAIRS, Uncertainty
from profiler_jobs.campaign import measure_profiles
from profiler_jobs.devices.simulated import SimulatedGpu
from profiler_jobs.method import Method
from profiler_jobs.plan import plan_solo, space_filling
from profiler_jobs.tasks import MeasurementTask
from profiler_jobs.workload_choice import choose_job_types
from profiler_jobs.workloads import all_job_types, list_job_types

FOUND = measure_profiles(
    SimulatedGpu(0), choose_job_types("*/*/64/*", [t for t in all_job_types() if t.model.name != "BERT"])[:16]
)
MEASURED = SampledPairs.of(FOUND.solo, FOUND.pairs)
KNOWN = list(range(0, len(MEASURED.tasks), 2))
REST = list(range(1, len(MEASURED.tasks), 2))


def ranked(order: Uncertainty, known: Sequence[int], rest: Sequence[int]) -> list[MeasurementTask]:
    tasks = MEASURED.tasks
    found = order(
        FOUND.solo, FOUND.pairs.iloc[list(known)], [tasks[row] for row in known], [tasks[row] for row in rest]
    )
    return [each.task for each in found]


@pytest.mark.parametrize("diverse", [False, True])
def test_every_candidate_is_ranked_once_and_the_listing_does_not_matter(diverse: bool) -> None:
    order = Uncertainty(diverse=diverse)
    first = ranked(order, KNOWN, REST)
    assert sorted(task.name for task in first) == sorted(MEASURED.tasks[row].name for row in REST)
    assert ranked(order, KNOWN, REST[::-1]) == first


def test_uncertain_pairs_near_the_decision_come_first() -> None:
    found = Uncertainty()(
        FOUND.solo,
        FOUND.pairs.iloc[KNOWN],
        [MEASURED.tasks[row] for row in KNOWN],
        [MEASURED.tasks[row] for row in REST],
    )
    scorer, _ = fit_pairwise(FOUND.solo, FOUND.pairs.iloc[KNOWN], PackingSettings(kind="pairwise"))
    row_of = {task: row for row, task in enumerate(MEASURED.tasks)}
    rows = [row_of[each.task] for each in found]
    expected = scorer.predict(MEASURED.table.first[rows], MEASURED.table.second[rows])[0]
    distance = np.abs(expected - 0.85)
    assert distance[:10].mean() < 0.05 < distance[-10:].mean()
    assert found[0].why.startswith(f"expected at {expected[0]:.2f} of solo speed")


def test_a_batch_of_the_diverse_order_is_less_alike() -> None:
    def spread(tasks: Sequence[MeasurementTask]) -> int:
        return len({job_type.model.name for task in tasks for job_type in task.job_types})

    plain, diverse = ranked(Uncertainty(), KNOWN, REST), ranked(Uncertainty(diverse=True), KNOWN, REST)
    assert spread(diverse[:10]) >= spread(plain[:10])
    assert diverse[:10] != plain[:10]


def test_too_few_pairs_fill_the_space_first() -> None:
    few = KNOWN[: FIRST_PAIRS - 1]
    candidates = [MEASURED.tasks[row] for row in REST]
    settled = [MEASURED.tasks[row] for row in few]
    filled = [each.task for each in space_filling(FOUND.solo, FOUND.pairs.iloc[few], settled, candidates)]
    assert ranked(Uncertainty(), few, REST) == filled


def test_pairs_of_one_model_hold_nothing_out_and_fill_the_space() -> None:
    models = [{job_type.model.name for job_type in task.job_types} for task in MEASURED.tasks]
    known = [row for row, names in enumerate(models) if names == {"VGG"}]
    settled = [MEASURED.tasks[row] for row in known]
    filled = space_filling(
        FOUND.solo,
        FOUND.pairs.iloc[known],
        settled,
        [MEASURED.tasks[row] for row in REST if row not in known],
    )
    rest = [row for row in REST if row not in known]
    assert ranked(Uncertainty(first_pairs=1), known, rest) == [each.task for each in filled]


@pytest.mark.thorough("the experiments")
def test_an_order_sees_nothing_of_what_it_has_not_measured() -> None:
    pool = np.arange(len(MEASURED.tasks))
    chosen = replay(MEASURED, pool, Uncertainty(), 80)
    unseen = np.setdiff1d(pool, chosen)
    speeds = FOUND.pairs[["speed_1", "speed_2"]].copy()
    speeds.iloc[unseen] = 0.1
    spoiled = SampledPairs.of(FOUND.solo, FOUND.pairs.assign(**speeds))
    assert replay(spoiled, pool, Uncertainty(), 80).tolist() == chosen.tolist()


def test_a_replay_takes_from_its_pool_only_and_nothing_twice() -> None:
    pool = np.arange(3, 90)
    for order in (random_order(1), space_filling):
        chosen = replay(MEASURED, pool, order, 1_000)
        assert sorted(chosen) == pool.tolist()
        assert len(replay(MEASURED, pool, order, 33)) == 33


@pytest.mark.thorough("the experiments")
def test_a_study_has_a_row_for_each_order_and_number_of_pairs(tmp_path: Path) -> None:
    rows = compare_orders(
        FOUND.solo,
        FOUND.pairs,
        orders=("random", "space_filling"),
        sizes=(20,),
        partitions={"new_pairs": 1},
        seeds=1,
    )
    assert [(row["order"], row["pairs"]) for row in rows] == [
        ("random", 20),
        ("space_filling", 20),
        (EVERYTHING, None),
    ]
    assert all(0 <= row["wrong_low"] <= row["wrong"] <= row["wrong_high"] <= 1 for row in rows)
    everything = rows[-1]
    assert everything["mae"] < 0.05
    assert everything["wrong"] <= min(row["wrong"] for row in rows[:2])
    draw_curves(rows, tmp_path / "images" / "curves.png")
    assert (tmp_path / "images" / "curves.png").stat().st_size > 10_000


@pytest.mark.thorough("the experiments")
def test_the_judge_is_perfect_where_nothing_is_new() -> None:
    """Speeds that follow from the features alone, learned from all of them: (almost) no error is left."""
    fitted, _ = fit_pairwise(FOUND.solo, FOUND.pairs, PackingSettings(kind="pairwise"))
    mean = fitted.predict(MEASURED.table.first, MEASURED.table.second)[0]
    smooth = replace(MEASURED, table=replace(MEASURED.table, speeds=np.stack([mean, mean], axis=1)))
    everything = np.arange(len(MEASURED.tasks))
    assert judge(smooth, everything, everything)["mae"] < judge(MEASURED, everything, everything)["mae"] / 2


def test_the_runs_of_ten_minutes_are_those_of_the_plan() -> None:
    plan = plan_solo(list_job_types(), [], method=Method(), overhead_s=20.0)
    first = runs_table().splitlines()[2].split(" | ")
    assert first[3] == str(len(plan.sessions(RUN_BUDGET_S)))


def test_pictures_show_what_there_is(tmp_path: Path) -> None:
    files = draw_profiles(FOUND, tmp_path)
    assert [file.name for file in files] == ["solo_profiles.png", "pair_speeds.png"]
    assert all(file.stat().st_size > 10_000 for file in files)
    nothing = replace(FOUND, solo=FOUND.solo.iloc[:0], pairs=FOUND.pairs.iloc[:0])
    assert draw_profiles(nothing, tmp_path) == []
