"""Rivals of the duration model that must be trained: black boxes on its features, and what the papers do."""

from functools import partial

import numpy as np
import pandas as pd

from experiments.model_quality import authors_recipes, black_boxes
from experiments.model_quality.black_box_lead import TaughtTable
from experiments.model_quality.duration_comparison import DurationRivalTest
from foundation.progress import Progress
from lucid_models.duration.levels import learned_features
from lucid_models.duration.model import WorkloadEstimateModel, epoch_seconds
from lucid_models.evaluation import rival_estimates
from lucid_models.evaluation.measures import cpu_timed, predict_timed
from lucid_models.qssf.estimates import mixed_s
from lucid_models.qssf.rolling import rolling_estimates_s
from lucid_models.qssf.rules import AS_SHIPPED, PUBLISHED
from lucid_models.qssf.trees import TreeUpdates, tree_estimates_s

_LARGEST_LOG = 20.0  # of seconds: fifteen years


def add_duration_rivals(
    test: DurationRivalTest, model: WorkloadEstimateModel, features: pd.DataFrame, progress: Progress
) -> None:
    """Add black boxes on the model's causal features and on raw ids, Lucid's own recipe, Helios' mixes."""
    _add_causal_boxes(test, model, features, progress)
    _add_raw_boxes(test, progress)
    _add_helios_mixes(test, progress)


def _add_causal_boxes(
    test: DurationRivalTest, model: WorkloadEstimateModel, features: pd.DataFrame, progress: Progress
) -> None:
    """Black boxes on the features that the model learns from: one on log run time for the order, one on
    seconds.

    LightGBM learns log run time by absolute error, as it is judged; `lightgbm_l2` by squared error.
    """
    (matrix, logarithm), making_s = cpu_timed(lambda: model.training_rows(test.train))
    names = model.scorer.state.names
    places = learned_features(names)
    rows = features.to_numpy()[:, places]
    for box in black_boxes.available():
        fit = partial(black_boxes.fit_regressor, box, matrix)
        progress(0, None, f"duration: {box} on causal features")
        raw_box, raw_s = cpu_timed(partial(fit, np.exp(logarithm)))
        mean = np.maximum(raw_box.predict(rows), 1.0)
        losses = {"lightgbm": "l1", "lightgbm_l2": "l2"} if box == "lightgbm" else {box: "l2"}
        for name, loss in losses.items():
            log_box, log_s = cpu_timed(partial(fit, logarithm, loss=loss))
            said, took_ms = predict_timed(partial(log_box.predict, rows))
            seconds = np.exp(np.clip(said, 0.0, _LARGEST_LOG))
            test.add(name, seconds, mean, fit_s=making_s + log_s + raw_s, predict_ms=took_ms)
    if test.has("lightgbm"):
        truth = np.log(np.maximum(test.truth, 1.0))
        test.explain_lead(TaughtTable(matrix, logarithm, rows, truth, [names[place] for place in places]))


def _add_raw_boxes(test: DurationRivalTest, progress: Progress) -> None:
    """What the papers do: ids as numbers and seconds as they are; Helios mixes its trees with P_R."""
    known = rival_estimates.known_from_s(test.train)
    ended = known <= epoch_seconds(test.test, "submit_time").min()
    seen = test.train[ended]
    columns = authors_recipes.raw_columns(seen, test.test)
    target = seen["duration_s"].to_numpy(dtype=np.float64)
    progress(0, None, "duration: Lucid's own recipe")
    recipe, fit_s = cpu_timed(lambda: authors_recipes.fit_duration(columns, target))
    said, took_ms = predict_timed(partial(recipe.predict, columns.test))
    test.add("lucid_recipe", said, said, fit_s=fit_s, predict_ms=took_ms)
    for name in (box for box in black_boxes.available() if box != "neural"):
        progress(0, None, f"duration: {name} on raw ids")
        box, fit_s = cpu_timed(partial(black_boxes.fit_with_defaults, name, columns.train, target))
        said, took_ms = predict_timed(partial(box.predict, columns.test))
        test.add(f"{name}_raw_ids", said, said, fit_s=fit_s, predict_ms=took_ms)


def _add_helios_mixes(test: DurationRivalTest, progress: Progress) -> None:
    """Helios' estimate (QSSF) by its paper's rules and by its artifact's, and with better trees.

    `helios_mix_causal` mixes the paper's rolling estimate with trees on the duration model's features.
    """
    progress(0, None, "duration: Helios' mixes")
    updates = TreeUpdates(first_fit_days=test.train_days, refit_days=None)
    trees, fit_s = cpu_timed(lambda: test.later(tree_estimates_s(test.jobs, updates)))
    for name, rules in (("helios_mix", PUBLISHED), ("helios_mix_shipped", AS_SHIPPED)):
        mixed = mixed_s(test.later(rolling_estimates_s(test.jobs, rules)), trees, rules)
        test.add(name, mixed, mixed, fit_s=fit_s)
    chosen = next(tree for tree in ("lightgbm", "rf") if test.has(tree))
    mixed = mixed_s(test.estimate_of("helios_rolling"), test.estimate_of(chosen), PUBLISHED)
    test.add("helios_mix_causal", mixed, mixed, **test.costs_of(chosen))
