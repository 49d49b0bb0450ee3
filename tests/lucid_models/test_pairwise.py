import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.errors import BadInputError, UnknownNameError
from lucid_models.evaluation.packing import evaluate_packing
from lucid_models.explanation.plots import draw_explanations
from lucid_models.model_format import CorruptModelError
from lucid_models.packing.model import PackingAnalyzeModel, PackingSettings, feature_matrix
from lucid_models.packing.pairwise import NO_PAIR, PAIR_FEATURES, pair_features
from lucid_models.packing.pairwise_training import fit_pairwise, model_bags, sharing_threshold
from lucid_models.scoring import PackingScorer, scorer_from_document

pytestmark = pytest.mark.slow

METRIC = st.floats(0, 100) | st.just(float("nan"))
JOB = st.tuples(METRIC, METRIC, st.floats(0, 90_000) | st.just(float("nan")), st.sampled_from([0.0, 1.0]))


@pytest.fixture(scope="module")
def model(profiles) -> PackingAnalyzeModel:
    return PackingAnalyzeModel(PackingSettings(kind="pairwise")).fit(*profiles)


@settings(max_examples=100, deadline=None)
@given(first=JOB, second=JOB)
def test_any_pair_has_speeds_within_bounds_that_do_not_depend_on_the_order(model, first, second) -> None:
    one, other = np.array([first]), np.array([second])
    mean, low = model.pair_speeds(one, other)
    assert 0 < low[0] <= mean[0] <= 1
    swapped = model.pair_speeds(other, one)
    assert (mean[0], low[0]) == (swapped[0][0], swapped[1][0])


def test_features_say_what_their_names_say() -> None:
    row = pair_features(np.array([[80.0, 5.0, 3_000.0, 1.0]]), np.array([[30.0, 9.0, 2_000.0, 0.0]]))[0]
    assert dict(zip(PAIR_FEATURES, row.tolist(), strict=True)) == {
        "gpu_util_sum_pct": 110.0,
        "gpu_util_max_pct": 80.0,
        "gpu_util_min_pct": 30.0,
        "gpu_mem_sum_mib": 5_000.0,
        "amp_jobs": 1.0,
    }


def test_light_pairs_share_and_heavy_ones_do_not(model) -> None:
    light, heavy = np.array([[5.0, 3.0, 2_300.0, 0.0]]), np.array([[97.0, 68.0, 7_800.0, 0.0]])
    assert model.pairwise.may_share(light, light)
    assert not model.pairwise.may_share(heavy, heavy)
    assert model.pair_speeds(heavy, heavy)[0] < model.pair_speeds(light, heavy)[0]


def test_saved_form_scores_alike_and_carries_the_tree(model, profiles) -> None:
    document = json.loads(json.dumps(model.to_data(), allow_nan=False))
    scorer = scorer_from_document(document)
    assert isinstance(scorer, PackingScorer)
    solo = feature_matrix(profiles[0])
    first, second = np.repeat(solo, 25, axis=0), np.tile(solo, (25, 1))
    for mine, theirs in zip(scorer.pair_speeds(first, second), model.pair_speeds(first, second), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-9)
    assert scorer.predict(*solo.T).tolist() == model.predict_table(profiles[0]).tolist()
    assert scorer.to_data() == PackingAnalyzeModel.from_data(document).to_data() == model.to_data()


def test_the_tree_is_the_same_with_and_without_the_pairwise_model(model, packing_model) -> None:
    assert model.tree.to_data() == packing_model.tree.to_data()
    with pytest.raises(BadInputError, match="--kind pairwise"):
        packing_model.pair_speeds(np.zeros((1, 4)), np.zeros((1, 4)))
    with pytest.raises(UnknownNameError, match="pairwise, tree"):
        PackingSettings(kind="forest")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda data: data.update(pairwise=None), "does not fit the kind 'pairwise'"),
        (lambda data: data["settings"].update(kind="tree"), "does not fit the kind 'tree'"),
        (lambda data: data["pairwise"].update(mean_speed_min=-1.0), "mean_speed_min is -1.0"),
        (lambda data: data["pairwise"]["min_speed"].update(link="log"), "not identity"),
        (
            lambda data: data["pairwise"]["mean_speed"].update(feature_names=list("abcde")),
            "do not fit",
        ),
    ],
)
def test_a_damaged_pairwise_part_is_refused(model, wrong, said: str) -> None:
    document = json.loads(json.dumps(model.to_data()))
    wrong(document["model"])
    for read in (scorer_from_document, PackingAnalyzeModel.from_data):
        with pytest.raises(CorruptModelError, match=said):
            read(document)


def test_an_explanation_adds_up_and_names_the_threshold(model, tmp_path) -> None:
    explained = model.explain_pair([90.0, 60.0, 7_000.0, 0.0], [80.0, 50.0, 6_000.0, 1.0])
    total = explained["intercept"] + sum(term["contribution"] for term in explained["terms"])
    assert total == pytest.approx(explained["prediction"], abs=1e-9)
    assert not explained["may_share"]
    assert explained["reason"].startswith("Must not share")
    assert "GPU utilisations that sum to 170 %" in explained["reason"]
    assert f"{model.pairwise.mean_speed_min:.2f} is needed" in explained["reason"]
    unknown = model.explain_pair([float("nan"), 60.0, 7_000.0, 0.0], [80.0, 50.0, 6_000.0, 1.0])
    assert "gpu_util_sum_pct unknown" in unknown["reason"]
    for name, head in model.explain_pairs().items():
        json.dumps(head, allow_nan=False)
        assert {path.name for path in draw_explanations(head, tmp_path / name)} >= {"global_importances.png"}


def test_bags_hold_out_whole_models() -> None:
    names = [f"m{i}" for i in range(20)]
    models = np.array([(a, b) for a in names for b in names if a <= b])
    split = model_bags(models)
    assert split.shape[1] == 12
    for bag in split.T:
        held_out = set(names) - set(models[bag == 1].ravel())
        assert ((bag == -1) == np.isin(models, list(held_out)).any(axis=1)).all()
    with pytest.raises(BadInputError, match="nothing can be held out"):
        model_bags(np.array([("a", "a"), ("a", "a")]))
    with pytest.raises(BadInputError, match="takes part in all pairs"):
        model_bags(np.array([("a", "b"), ("b", "a")]))


@settings(max_examples=100, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.sampled_from([0.5, 0.7, 0.8, 0.9, 1.0]), st.booleans(), st.integers(0, 3)), min_size=1
    ),
    precision=st.sampled_from([0.5, 0.9, 1.0]),
)
def test_a_threshold_keeps_the_precision_it_was_chosen_for(rows, precision: float) -> None:
    predicted, good, groups = (np.array(column) for column in zip(*rows, strict=True))
    threshold = sharing_threshold(predicted, good, groups, precision)
    called = predicted >= threshold
    assert threshold == NO_PAIR or good[called].mean() >= precision
    if good.all():
        assert threshold == predicted.min()


def test_one_bad_model_raises_the_threshold_above_that_of_pairs_that_err_alone() -> None:
    predicted = np.linspace(1.0, 0.0, 400)
    wrong = np.arange(400) % 20 == 19
    alone = sharing_threshold(predicted, ~wrong, np.arange(400), 0.93)
    together = sharing_threshold(predicted, ~wrong, np.where(wrong, 0, 1 + np.arange(400) % 5), 0.93)
    assert together > alone


def test_pairs_that_always_hurt_let_nobody_share(profiles) -> None:
    solo, pairs = profiles
    scorer, training = fit_pairwise(solo, pairs.assign(speed_1=0.4, speed_2=0.5), PackingSettings())
    assert scorer.mean_speed_min == NO_PAIR
    assert training["held_out_precision"] is None
    assert not scorer.may_share(np.zeros((1, 4)), np.zeros((1, 4)))


@pytest.mark.reference
def test_on_the_rtx_3090_data_pairs_of_unseen_models_are_judged_well(rtx_3090) -> None:
    rows = evaluate_packing(*rtx_3090, models=("pairwise",), protocols=("leave_model_out",))
    found = rows[0]
    assert found["precision_mean"] >= 0.96
    assert found["recall_mean"] >= 0.90
