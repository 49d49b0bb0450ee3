"""Labels from few pairs: what was not measured counts as the pairwise model expects it."""

import numpy as np
import pandas as pd

from lucid_models.packing.completion import ENOUGH_MEASURED, complete_pairs
from lucid_models.packing.model import label_configurations, mean_partner_speeds, score_of_speed
from lucid_models.packing.tree import PackingSettings
from profiler_jobs.campaign import measure_profiles
from profiler_jobs.devices.simulated import SimulatedGpu
from profiler_jobs.plan import space_filling
from profiler_jobs.tasks import MeasurementTask
from profiler_jobs.workload_choice import choose_job_types
from profiler_jobs.workloads import find_job_type, list_job_types

FOUND = measure_profiles(SimulatedGpu(0), choose_job_types("*/*/64/*", list_job_types())[:18])
RULES = PackingSettings()


def first_pairs(many: int) -> pd.DataFrame:
    tasks = [
        MeasurementTask((find_job_type(one), find_job_type(other)))
        for one, other in zip(FOUND.pairs["job_type_1"], FOUND.pairs["job_type_2"], strict=True)
    ]
    chosen = [each.task for each in space_filling(FOUND.solo, FOUND.pairs.iloc[:0], [], tasks)][:many]
    return FOUND.pairs.iloc[[tasks.index(task) for task in chosen]]


def test_few_pairs_are_completed_and_measured_ones_kept() -> None:
    few = first_pairs(40)
    whole = complete_pairs(FOUND.solo, few, RULES)
    configurations = {*few["job_type_1"], *few["job_type_2"]}
    assert len(whole) == len(configurations) * (len(configurations) + 1) / 2
    pd.testing.assert_frame_equal(
        whole.iloc[: len(few)], few[list(whole.columns)].reset_index(drop=True), check_dtype=False
    )
    added = whole.iloc[len(few) :]
    assert added["speed_1"].between(0.05, 1).all()
    assert (added["speed_1"] == added["speed_2"]).all()


def test_labels_from_few_pairs_are_nearer_to_those_from_all() -> None:
    truth = mean_partner_speeds(FOUND.pairs)
    few = first_pairs(40)
    measured_only = mean_partner_speeds(few)
    labels = label_configurations(FOUND.solo, few, RULES)
    completed = dict(zip(labels.job_types, labels.mean_partner_speed, strict=True))
    assert completed.keys() == measured_only.keys()

    def error(speeds: dict[str, float]) -> float:
        return float(np.mean([abs(speeds[name] - truth[name]) for name in speeds]))

    assert error(completed) < error(measured_only) / 2
    assert (labels.scores == score_of_speed(labels.mean_partner_speed, RULES)).all()


def test_enough_pairs_and_too_few_stay_as_they_are() -> None:
    enough = FOUND.pairs.sample(frac=ENOUGH_MEASURED + 0.05, random_state=1)
    assert complete_pairs(FOUND.solo, enough, RULES) is enough
    too_few = FOUND.pairs.iloc[:19]
    assert complete_pairs(FOUND.solo, too_few, RULES) is too_few


def test_pairs_in_which_two_models_always_meet_teach_nothing_and_stay() -> None:
    two = measure_profiles(SimulatedGpu(0), choose_job_types("VGG,ResNet18", list_job_types()))
    models = [two.pairs[f"job_type_{side}"].str.split("/").str[0] for side in (1, 2)]
    mixed = two.pairs[models[0] != models[1]]
    assert len(mixed) == 36  # of 78: fewer than half
    assert complete_pairs(two.solo, mixed, RULES) is mixed
