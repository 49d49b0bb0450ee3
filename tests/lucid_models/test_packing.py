from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from experiments.model_quality.packing_rivals import CONTENDERS
from foundation.errors import BadInputError
from lucid_models.evaluation.packing import evaluate_packing
from lucid_models.evaluation.packing_contenders import Judge, LabelledPairs
from lucid_models.packing.model import (
    FEATURES,
    PackingAnalyzeModel,
    PackingSettings,
    SharingScore,
    label_configurations,
    mean_partner_speeds,
    score_of_speed,
)

pytestmark = pytest.mark.slow


def test_a_label_is_the_mean_speed_left_to_partners() -> None:
    pairs = pd.DataFrame(
        {
            "job_type_1": ["a", "a", "b"],
            "speed_1": [0.5, 0.6, 0.7],
            "job_type_2": ["b", "a", "b"],
            "speed_2": [1.0, 0.8, 0.9],
        }
    )
    # a leaves b 1.0 and itself 0.8 and 0.6; b leaves a 0.5 and itself 0.9 and 0.7.
    assert mean_partner_speeds(pairs) == pytest.approx({"a": 2.4 / 3, "b": 2.1 / 3})


@pytest.mark.parametrize(
    ("speed", "score"),
    [(1.2, "TINY"), (0.9501, "TINY"), (0.95, "MEDIUM"), (0.85, "MEDIUM"), (0.8499, "JUMBO"), (0.0, "JUMBO")],
)
def test_thresholds_cut_speeds_into_scores(speed: float, score: str) -> None:
    assert SharingScore(int(score_of_speed(speed, PackingSettings()))).name == score


def test_configurations_without_pairs_teach_nothing_and_are_counted(profiles) -> None:
    solo, pairs = profiles
    labels = label_configurations(solo, pairs)
    assert labels.unpaired == ("m8/d/24/0",)
    model = PackingAnalyzeModel().fit(solo, pairs)
    assert (model.training["configurations"], model.training["without_pairs"]) == (24, 1)
    changed = solo.copy()
    changed.loc[24, ["gpu_util_pct", "gpu_mem_util_pct"]] = [0.0, 0.0]
    assert PackingAnalyzeModel().fit(changed, pairs).to_data() == model.to_data()


def test_features_hold_nothing_derived_from_the_pairs(profiles) -> None:
    solo, pairs = profiles
    assert FEATURES == ("gpu_util_pct", "gpu_mem_util_pct", "gpu_mem_mib", "amp")
    # A label hidden among the solo columns changes nothing.
    leaked = solo.assign(label=np.arange(len(solo)), speed=1.0)
    assert (
        PackingAnalyzeModel().fit(leaked, pairs).to_data() == PackingAnalyzeModel().fit(solo, pairs).to_data()
    )


def test_the_tree_learns_the_order_of_load(packing_model) -> None:
    load = np.linspace(2, 98, 9)
    scores = packing_model.predict(load, load * 0.7, 2_000 + 60 * load, 0)
    assert (np.diff(scores) >= 0).all()
    assert (scores[0], scores[-1]) == (SharingScore.TINY, SharingScore.JUMBO)
    assert packing_model.tree.leaves <= 5


def test_pruning_shrinks_a_tree_that_learned_noise() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(120, 4))
    noisy = (features[:, 0] > 0).astype(np.intp)
    noisy[rng.random(120) < 0.25] = 2
    assert PackingAnalyzeModel().fit_labelled(features, noisy).tree.leaves <= 4


def test_one_label_and_bad_thresholds_are_refused(profiles) -> None:
    solo, pairs = profiles
    with pytest.raises(BadInputError, match="same Sharing Score"):
        PackingAnalyzeModel().fit(solo, pairs.assign(speed_1=1.0, speed_2=1.0))
    with pytest.raises(BadInputError, match=r"medium_from=0\.96"):
        PackingSettings(medium_from=0.96)
    with pytest.raises(BadInputError, match="gpu_mem_mib"):
        PackingAnalyzeModel().fit(solo.drop(columns="gpu_mem_mib"), pairs)
    with pytest.raises(BadInputError, match="not been fitted"):
        PackingAnalyzeModel().predict(1, 1, 1, 0)


def test_a_tree_has_at_most_the_leaves_that_the_settings_allow() -> None:
    rng = np.random.default_rng(0)
    features = rng.uniform(0, 100, size=(200, 4))
    scores = (features[:, 0] // 20 % 3).astype(np.intp)
    free = PackingAnalyzeModel(PackingSettings(max_leaves=50)).fit_labelled(features, scores)
    assert free.tree.leaves > 3
    assert PackingAnalyzeModel(PackingSettings(max_leaves=3)).fit_labelled(features, scores).tree.leaves == 3
    with pytest.raises(BadInputError, match="at most 1 leaves"):
        PackingSettings(max_leaves=1)


def test_evaluation_lists_rivals_and_the_bare_rule(profiles) -> None:
    rows = evaluate_packing(*profiles, models=("tree", "majority_class", "utilisation_sum_learned"))
    found = {(row["model"], row["protocol"]): row for row in rows}
    assert {
        ("tree", "loo"),
        ("tree", "leave_model_out"),
        ("majority_class", "loo"),
        ("utilisation_sum", "fixed"),
    } <= set(found)
    assert found["tree", "loo"]["accuracy"] > found["majority_class", "loo"]["accuracy"]
    assert found["utilisation_sum_learned", "loo"]["accuracy"] is None
    assert all(row["fit_s"] >= 0 for row in rows)
    with pytest.raises(BadInputError, match="oracle"):
        evaluate_packing(*profiles, models=("oracle",))


@pytest.mark.thorough("the experiments")
def test_every_contender_judges_every_left_out_pair(profiles) -> None:
    solo, pairs = profiles
    few = solo[solo["model"].isin(["m0", "m2", "m5", "m7"])]
    rows = evaluate_packing(few, pairs, protocols=("leave_model_out",), contenders=CONTENDERS)
    assert {row["model"] for row in rows} == {*CONTENDERS, "utilisation_sum"}
    for row in rows:
        assert row["precision_mean"] is None or 0 <= row["precision_mean"] <= 1
        assert 0 <= row["recall_mean"] <= 1


def test_nothing_that_takes_part_in_a_left_out_pair_is_learned_from(profiles) -> None:
    solo, pairs = profiles
    seen: list[LabelledPairs] = []

    def fit(known: LabelledPairs, settings: PackingSettings) -> Judge:
        seen.append(known)
        return CONTENDERS["majority_class"].fit(known, settings)

    spy = replace(CONTENDERS["majority_class"], fit=fit)
    evaluate_packing(solo, pairs, protocols=("leave_model_out",), contenders={"spy": spy})
    for left_out, known in zip(sorted(set(solo["model"][:24])), seen, strict=False):
        assert left_out not in set(known.solo["model"])
        used = {name.split("/")[0] for side in (1, 2) for name in known.pairs[f"job_type_{side}"]}
        assert used == set(known.solo["model"])
        # Labels are those of a table that never held the left-out model.
        labels = label_configurations(known.solo, known.pairs)
        assert labels.scores.tolist() == known.scores.tolist()


@pytest.mark.thorough("the experiments")
def test_the_leak_is_worth_what_is_claimed(profiles) -> None:
    rng = np.random.default_rng(1)
    solo, pairs = profiles
    noise = solo.assign(
        **{name: rng.permutation(solo[name].to_numpy()) for name in ("gpu_util_pct", "gpu_mem_util_pct")},
        gpu_mem_mib=rng.uniform(2_000, 8_000, len(solo)),
    )
    rows = evaluate_packing(
        noise, pairs, models=("tree", "with_leak"), protocols=("loo",), contenders=CONTENDERS
    )
    honest, leaking, _ = rows
    assert leaking["accuracy"] >= 0.9 > honest["accuracy"] + 0.2


@pytest.mark.reference
def test_on_the_rtx_3090_data_the_tree_reaches_what_was_measured(rtx_3090) -> None:
    solo, pairs = rtx_3090
    assert len(label_configurations(solo, pairs).unpaired) == 10
    rows = {
        (row["model"], row["protocol"]): row
        for row in evaluate_packing(solo, pairs, models=("tree", "with_leak"), contenders=CONTENDERS)
    }
    assert rows["tree", "loo"]["accuracy"] >= 0.77
    assert rows["tree", "loo"]["severe_errors"] == 0.0
    assert rows["tree", "leave_model_out"]["accuracy"] > 0.62
    assert rows["tree", "leave_model_out"]["severe_errors"] == 0.0
    assert rows["with_leak", "loo"]["accuracy"] >= 0.94
    assert PackingAnalyzeModel().fit(solo, pairs).tree.leaves <= 5
    bare = rows["utilisation_sum", "fixed"]
    assert (bare["precision_mean"], bare["recall_mean"]) == pytest.approx((0.981, 0.874), abs=0.002)
