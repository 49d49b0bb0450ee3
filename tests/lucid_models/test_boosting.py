import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.errors import BadInputError
from lucid_models.additive_scorer import AdditiveScorer
from lucid_models.boosting import (
    MANY_ROWS,
    OBJECTIVES,
    BoostedModel,
    BoostingSettings,
    affordable,
    boost,
    sampled_rows,
    time_blocked_bags,
)

QUICK = BoostingSettings(bags=2, max_rounds=30, max_bins=16)
NAMES = ["a", "b"]


def table(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two features, one with unknown values; a positive target with a heavy tail; eight blocks of time."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(rows, 2))
    features[rng.random(rows) < 0.1, 1] = np.nan
    score = np.sin(2 * features[:, 0]) + 0.5 * np.nan_to_num(features[:, 1], nan=2.0)
    return features, np.exp(score + rng.normal(size=rows)), np.arange(rows) * 8 // rows


def same(one: BoostedModel, other: BoostedModel) -> bool:
    return one.scorer.to_data() == other.scorer.to_data() and np.array_equal(
        one.held_out_scores, other.held_out_scores
    )


def test_a_fit_says_nothing_in_a_log_that_takes_everything(caplog: pytest.LogCaptureFixture) -> None:
    features, target, blocks = table(200)
    with caplog.at_level("INFO"):
        boost(features, target, NAMES, blocks, QUICK)
    assert caplog.records == []


# Large tables --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "features", "bags", "sample"),
    [
        (MANY_ROWS, 500, 4, None),
        (MANY_ROWS + 1, 20, 2, None),
        (1_000_000, 20, 2, None),
        (1_000_001, 20, 2, 1_000_000),
        (10_000_000, 20, 2, 1_000_000),
        (1_000_000, 60, 2, 333_333),
        (1_000_000, 5_000, 2, MANY_ROWS),
    ],
)
def test_what_a_table_is_boosted_with(rows: int, features: int, bags: int, sample: int | None) -> None:
    chosen = affordable(BoostingSettings(max_rounds=9_999), rows, features)
    assert (chosen.bags, chosen.sample_rows) == (bags, sample)
    assert chosen.max_rounds == (9_999 if rows <= MANY_ROWS else 2_000)
    assert chosen.smoothing_rounds == (500 if rows <= MANY_ROWS else 100)


def test_a_smaller_sample_that_was_asked_for_stays() -> None:
    assert affordable(BoostingSettings(sample_rows=50_000), 10_000_000, 20).sample_rows == 50_000


@given(
    sizes=st.lists(st.integers(1, 300), min_size=1, max_size=8),
    most=st.integers(2, 400),
    seed=st.integers(0, 99),
)
def test_a_sample_represents_every_stretch_of_time(sizes: list[int], most: int, seed: int) -> None:
    blocks = np.repeat(np.arange(len(sizes)), sizes)
    rows = sampled_rows(blocks, most, seed)
    assert rows.size == min(most, blocks.size)
    assert (np.diff(rows) > 0).all()
    assert np.array_equal(rows, sampled_rows(blocks, most, seed))
    share = rows.size / blocks.size
    for block, size in enumerate(sizes):
        assert abs((blocks[rows] == block).sum() - share * size) < 2
    # No gap is longer than two of the runs that give one row each.
    assert np.diff(rows, prepend=-1, append=blocks.size).max() <= 2 * np.ceil(1 / share)


def test_blocks_in_any_order_are_sampled_block_by_block() -> None:
    blocks = np.random.default_rng(0).integers(0, 5, 1_000)
    rows = sampled_rows(blocks, 100, seed=0)
    counts = np.bincount(blocks[rows], minlength=5) - np.bincount(blocks, minlength=5) / 10
    assert np.abs(counts).max() < 2


@pytest.mark.parametrize(
    "objective", ["rmse", "gamma_deviance", "poisson_deviance", "pseudo_huber:delta=1.0"]
)
def test_shapes_come_from_the_sample_and_the_rest_from_all_rows(objective: str) -> None:
    features, target, blocks = table(4_000)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 4_000)
    chosen = BoostingSettings(objective=objective, bags=2, max_rounds=40, max_bins=16, sample_rows=900)
    sampled = boost(features, target, NAMES, blocks, chosen, weights).scorer
    rows = sampled_rows(blocks, 900, chosen.seed)
    alone = boost(
        features[rows],
        target[rows],
        NAMES,
        blocks[rows],
        BoostingSettings(objective=objective, bags=2, max_rounds=40, max_bins=16),
        weights[rows],
    ).scorer
    for term, other in zip(sampled.terms, alone.terms, strict=True):
        assert np.array_equal(term.scores, other.scores)
        assert np.array_equal(term.cuts[0], other.cuts[0])
        assert term.weights.sum() == pytest.approx(weights.sum())
        missing = np.isnan(features[:, term.features[0]])
        assert term.weights[0] == pytest.approx(weights[missing].sum())
    predicted = sampled.predict(features)
    if objective == "rmse":
        assert np.average(target - predicted, weights=weights) == pytest.approx(0.0, abs=1e-9)
    elif objective == "gamma_deviance":
        assert np.average(target / predicted, weights=weights) == pytest.approx(1.0)
    elif objective == "poisson_deviance":
        assert np.average(predicted, weights=weights) == pytest.approx(np.average(target, weights=weights))
    else:
        assert sampled.intercept == alone.intercept


def test_pairs_learned_from_a_sample_count_all_rows() -> None:
    rng = np.random.default_rng(3)
    features = rng.normal(size=(6_000, 2))
    target = np.sign(features[:, 0] * features[:, 1]) + 0.1 * rng.normal(size=6_000)
    blocks = np.arange(6_000) // 750
    chosen = BoostingSettings(bags=2, max_rounds=200, max_bins=32, pairs=((0, 1),), sample_rows=3_000)
    boosted = boost(features, target, NAMES, blocks, chosen)
    assert [term.features for term in boosted.scorer.terms] == [(0,), (1,), (0, 1)]
    assert boosted.scorer.terms[2].weights.sum() == 6_000
    for scores in (boosted.scorer.score(features), boosted.held_out_scores):
        assert np.abs(scores - target).mean() < 0.35


@pytest.mark.parametrize("pair", [(0, 2), (1, 1), (-1, 0)])
def test_a_pair_that_names_no_two_features_is_refused(pair: tuple[int, int]) -> None:
    features, target, blocks = table(100)
    with pytest.raises(BadInputError, match="does not name two of 2 features"):
        boost(features, target, NAMES, blocks, BoostingSettings(bags=2, pairs=(pair,)))


def test_a_sample_is_nearly_as_good_as_all_rows() -> None:
    features, target, blocks = table(20_000)
    fresh, truth, _ = table(20_000, seed=1)
    errors = [
        np.abs(
            boost(features, np.log(target), NAMES, blocks, chosen).scorer.score(fresh) - np.log(truth)
        ).mean()
        for chosen in (BoostingSettings(bags=2), BoostingSettings(bags=2, sample_rows=4_000))
    ]
    assert errors[1] < 1.02 * errors[0]


def test_held_out_scores_come_from_bags_that_did_not_see_the_row() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(600, 1))
    target = features[:, 0].copy()
    blocks = np.arange(600) // 100
    target[blocks == 3] += 50.0  # a block that no other block announces
    for sample in (None, 300):
        chosen = BoostingSettings(bags=6, max_rounds=100, max_bins=32, sample_rows=sample)
        boosted = boost(features, target, ["x"], blocks, chosen)
        # Whoever trained on the block would predict part of its jump.
        assert abs(boosted.held_out_scores[blocks == 3].mean()) < 5.0
        assert boosted.scorer.score(features)[blocks == 3].mean() > 5.0


@given(
    blocks=st.lists(st.integers(0, 12), min_size=1, max_size=60).map(sorted).map(np.array),
    bags=st.integers(1, 6),
)
def test_bags_never_split_a_block_of_time(blocks: np.ndarray, bags: int) -> None:
    split = time_blocked_bags(blocks, bags)
    assert split.shape == (blocks.size, bags)
    for block in np.unique(blocks):
        assert (split[blocks == block] == split[blocks == block][0]).all()
    # Each block validates exactly one bag.
    assert ((split == -1).sum(axis=1) == 1).all()


# The same result on any machine --------------------------------------------------------------------------


def test_the_number_of_cores_changes_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(21_000, 20))
    target = features[:, 0] + rng.normal(size=21_000)
    names, blocks = [f"f{i}" for i in range(20)], np.arange(21_000) // 3_000
    results = []
    for cores in ("1", "2", "1"):
        monkeypatch.setenv("LOKY_MAX_CPU_COUNT", cores)
        results.append(boost(features, target, names, blocks, BoostingSettings(bags=3, max_rounds=10)))
    assert same(results[0], results[1])
    assert same(results[0], results[2])


def test_single_precision_is_read_as_it_is() -> None:
    features, target, blocks = table(600)
    narrow = features.astype(np.float32)
    assert same(
        boost(narrow, target, NAMES, blocks, QUICK),
        boost(narrow.astype(np.float64), target, NAMES, blocks, QUICK),
    )


def test_a_weight_counts_as_that_many_rows() -> None:
    features, target, blocks = table(500)
    heavy = np.where(blocks % 2 == 0, 3.0, 1.0)
    chosen = BoostingSettings(bags=2, max_rounds=30, max_bins=8, min_samples_leaf=1)
    weighted = boost(features, target, NAMES, blocks, chosen, heavy).scorer
    again = np.repeat(np.arange(500), heavy.astype(int))
    repeated = boost(features[again], target[again], NAMES, blocks[again], chosen).scorer
    plain = boost(features, target, NAMES, blocks, chosen).scorer
    assert weighted.intercept == pytest.approx(repeated.intercept, rel=0.02)
    assert abs(weighted.intercept - repeated.intercept) < abs(plain.intercept - repeated.intercept)
    assert sum(weighted.terms[0].weights) == pytest.approx(heavy.sum())


# What cannot be learned from -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("objective", "value", "says"),
    [
        ("rmse", np.nan, "row 7 holds nan"),
        ("rmse", np.inf, "row 7 holds inf"),
        ("rmse", -1e200, "row 7 holds -1e\\+200"),
        ("gamma_deviance", 0.0, "row 7 holds 0.0.*positive"),
        ("poisson_deviance", -0.5, "row 7 holds -0.5.*not negative"),
    ],
)
def test_a_target_that_cannot_be_learned_is_named(objective: str, value: float, says: str) -> None:
    features, target, blocks = table(200)
    target[7] = value
    with pytest.raises(BadInputError, match=f"(?s)1 of 200 targets.*{says}"):
        boost(features, target, NAMES, blocks, BoostingSettings(objective=objective, bags=2))


@pytest.mark.parametrize("weight", [0.0, -1.0, np.nan, np.inf])
def test_a_weight_that_means_nothing_is_named(weight: float) -> None:
    features, target, blocks = table(100)
    weights = np.ones(100)
    weights[3] = weight
    with pytest.raises(BadInputError, match="weight of row 3"):
        boost(features, target, NAMES, blocks, QUICK, weights)


@pytest.mark.parametrize(
    ("part", "says"),
    [("features", "do not fit 2 names"), ("target", "target has shape"), ("blocks", "blocks has shape")],
)
def test_shapes_that_do_not_fit_are_named(part: str, says: str) -> None:
    features, target, blocks = table(50)
    given_ = {"features": features, "target": target, "blocks": blocks}
    given_[part] = np.ones((3, 3)) if part == "features" else np.ones(3)
    with pytest.raises(BadInputError, match=says):
        boost(given_["features"], given_["target"], NAMES, given_["blocks"], QUICK)


def test_one_block_of_time_cannot_be_validated() -> None:
    features, target, _ = table(400)
    with pytest.raises(BadInputError, match="one block of time"):
        boost(features, target, NAMES, np.zeros(400, dtype=int), QUICK)


def test_training_that_diverges_is_refused() -> None:
    features, target, blocks = table(400)
    with pytest.raises(BadInputError, match="diverged"):
        boost(features, target * 1e12, NAMES, blocks, BoostingSettings(objective="pseudo_huber:delta=1.0"))


def test_two_groups_of_targets_are_learned_though_the_first_training_diverges() -> None:
    # The median lies between the groups, where pseudo-Huber has next to no curvature.
    second = (np.random.default_rng(1).random(100) < 0.5).astype(float)
    target = 1.3 + 8.0 * second + np.random.default_rng(0).normal(0.0, 0.3, 100)
    huber = BoostingSettings(objective="pseudo_huber:delta=0.25", bags=2, max_rounds=100, max_bins=16)
    features = np.stack([second, np.zeros(100)], axis=1)
    model = boost(features, target, NAMES, np.arange(100) // 10, huber)
    assert np.abs(model.scorer.score(features) - target).mean() < 0.3


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("objective", "guess"),
        ("bags", 1),
        ("max_rounds", 0),
        ("max_bins", 3),
        ("learning_rate", 0.0),
        ("min_samples_leaf", 0),
        ("interactions", -1),
        ("sample_rows", 1),
        ("smoothing_rounds", -1),
        ("patience_rounds", 0),
    ],
)
def test_a_setting_out_of_bounds_is_named(name: str, value: object) -> None:
    with pytest.raises(BadInputError, match=str(value)):
        BoostingSettings(**{name: value})


# Odd tables that can be learned from -----------------------------------------------------------------------


@pytest.mark.parametrize("objective", [*OBJECTIVES, "pseudo_huber:delta=1.0"])
@pytest.mark.parametrize("constant", [0.25, 3.0, 4_000.0])
def test_a_constant_target_is_predicted(objective: str, constant: float) -> None:
    if objective == "tweedie_deviance":
        objective += ":variance_power=1.5"
    features, _, blocks = table(300)
    chosen = BoostingSettings(objective=objective, bags=2, max_rounds=30, max_bins=8)
    scorer = boost(features, np.full(300, constant), NAMES, blocks, chosen).scorer
    np.testing.assert_allclose(scorer.predict(features), constant, rtol=2e-3)


def test_features_without_information_add_nothing() -> None:
    features, target, blocks = table(400)
    odd = np.column_stack([features, np.full(400, np.nan), np.full(400, 7.0)])
    scorer = boost(odd, target, [*NAMES, "unknown", "constant"], blocks, QUICK).scorer
    assert [term.cuts[0].size for term in scorer.terms[2:]] == [0, 0]
    assert scorer.importances()[2:].max() == pytest.approx(0.0, abs=1e-9)


NASTY = st.sampled_from([np.nan, np.inf, -np.inf, 1e308, -1e308, 1e-300, 0.0, -0.0, 1.0, 2.0]) | st.floats(
    -9, 9
)


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(
    data=st.data(),
    objective=st.sampled_from(["rmse", "gamma_deviance", "pseudo_huber:delta=1.0"]),
    rows=st.integers(2, 40),
    sample=st.none() | st.integers(2, 40),
)
def test_any_table_is_refused_or_gives_a_sane_model(data: st.DataObject, objective, rows, sample) -> None:
    column = st.lists(NASTY, min_size=rows, max_size=rows)
    features = np.array([data.draw(column), data.draw(column)]).T
    usual = st.floats(0.01, 9) | st.sampled_from([1e-12, 0.5, 1e12])
    target = np.array(data.draw(st.lists(usual, min_size=rows, max_size=rows)))
    chosen = BoostingSettings(objective=objective, bags=2, max_rounds=8, max_bins=8, sample_rows=sample)
    try:
        boosted = boost(features, target, NAMES, np.arange(rows) // 3, chosen)
    except BadInputError:
        return
    assert np.isfinite(boosted.held_out_scores).all()
    predicted = boosted.scorer.predict(features)
    assert np.isfinite(predicted).all()
    again = AdditiveScorer.from_data(boosted.scorer.to_data())
    assert np.array_equal(again.predict(features), predicted)
