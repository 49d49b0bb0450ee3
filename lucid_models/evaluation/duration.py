"""Measures the duration model beside its rivals: jobs after the training days, in the order of submission.

A run time is known only once its job ended (submission + wait + run). Rivals are others' methods over the
same history, black boxes on the model's own causal features, and what the papers do: ids as numbers, seconds
as they are.
"""

from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foundation.errors import BadInputError
from foundation.progress import Progress, silent
from lucid_models.duration import rival_estimates
from lucid_models.duration.model import DurationSettings, WorkloadEstimateModel, epoch_seconds
from lucid_models.duration.scorer import DurationScorer
from lucid_models.evaluation import authors_recipes, black_boxes
from lucid_models.evaluation.measures import (
    Floats,
    Row,
    compared,
    cpu_timed,
    duration_metrics,
    log10_errors,
    predict_timed,
    r_squared,
)
from lucid_models.throughput.features import DAY_S

# Helios (section 4.2.2) mixes its rolling estimate and its boosted trees; half and half is its default.
HELIOS_LAMBDA = 0.5
LEAST_JOBS = 10
_LARGEST_LOG = 20.0  # of seconds: fifteen years


@dataclass(frozen=True)
class DurationComparison:
    """What was measured.

    - `rows`: one a model; `ebm_unconstrained` is the model before its monotone constraints.
    - `by_group`: one a model and group of jobs (known and new users and names, virtual clusters): {model,
      split, group, jobs, mae_log10}.
    - `estimates`: one row a test job: submit_time, virtual_cluster, truth_s, p50_s, p90_s, mean_s of the
      model and one column a rival, in seconds.
    """

    rows: list[Row] = field(default_factory=list)
    by_group: list[Row] = field(default_factory=list)
    estimates: pd.DataFrame = field(default_factory=pd.DataFrame)
    train_jobs: int = 0


def evaluate_duration(
    jobs: pd.DataFrame,
    train_days: float,
    *,
    rivals: bool = True,
    settings: DurationSettings | None = None,
    progress: Progress = silent,
) -> list[Row]:
    """The rows of `compare_durations`."""
    return compare_durations(jobs, train_days, rivals=rivals, settings=settings, progress=progress).rows


def compare_durations(
    jobs: pd.DataFrame,
    train_days: float,
    *,
    rivals: bool = True,
    settings: DurationSettings | None = None,
    progress: Progress = silent,
) -> DurationComparison:
    """Every model on the jobs submitted after the first `train_days` days.

    Rows {model, kendall_tau, spearman, mae_log10, r2_mean_head, coverage_p50, coverage_p90, negative_share,
    fit_s, predict_ms, jobs, worse_by, ...}. Jobs that never ran (no run time, or zero) are left out. Ranks
    are of GPU time (GPUs x run time), errors of log10 run time, R2 of seconds; `negative_share` of what a
    model says below zero, which counts as a second in ranks and errors. `rivals=False` leaves out what must
    be trained. Times are CPU time; `fit_s` includes making the features, `predict_ms` is for all test jobs
    from ready features. `worse_by`: how much the error exceeds the model's (evaluation_measures.compared,
    blocks of days).

    Raises BadInputError when the split leaves too few jobs on either side.
    """
    test = _Test(jobs, train_days)
    progress(0, None, "duration: the model")
    model, features = _add_model(test, settings, progress)
    _add_naive(test)
    if rivals:
        _add_causal_boxes(test, model, features, progress)
        _add_raw_boxes(test, progress)
        _add_helios_mixes(test)
    progress(1, 1, "durations evaluated")
    return test.result()


class _Test:
    """The split log and what each model said of its later part."""

    def __init__(self, jobs: pd.DataFrame, train_days: float) -> None:
        ran = jobs[pd.to_numeric(jobs["duration_s"], errors="coerce").astype("Float64").fillna(0) > 0]
        submit = epoch_seconds(ran, "submit_time")
        order = np.argsort(submit, kind="stable")
        self.jobs = ran.iloc[order].reset_index(drop=True)
        self.early = submit[order] < (submit.min() if len(ran) else 0.0) + train_days * DAY_S
        self.train = self.jobs[self.early]
        self.test = self.jobs[~self.early].reset_index(drop=True)
        if len(self.test) < LEAST_JOBS or len(self.train) < LEAST_JOBS:
            raise BadInputError(
                f"{train_days:g} training days leave {len(self.train)} jobs to learn from and "
                f"{len(self.test)} to test.",
                remedy="Choose --train-days within the log.",
            )
        self.truth = self.test["duration_s"].to_numpy(dtype=np.float64)
        # A job without a GPU counts as one unit, so that CPU logs are ranked by run time x cores or run time.
        self.size = np.maximum(self.test["gpus"].to_numpy(dtype=np.float64), 1.0)
        self.estimates = pd.DataFrame(
            {
                "submit_time": self.test["submit_time"],
                "virtual_cluster": self.test.get("virtual_cluster"),
                "gpus": self.test["gpus"],
                "truth_s": self.truth,
            }
        )
        self._said: dict[str, tuple[Floats, Floats, Row]] = {}

    def add(self, name: str, seconds: Floats, mean: Floats, **measured: float | None) -> None:
        """Take note of a model: what it orders jobs by, its mean run times, what else was measured."""
        self._said[name] = (seconds, mean, measured)
        self.estimates["p50_s" if name == "ebm" else name] = seconds

    def has(self, name: str) -> bool:
        """Whether the model was measured."""
        return name in self._said

    def estimate_of(self, name: str) -> Floats:
        """What a model orders jobs by, in seconds."""
        return self._said[name][0]

    def costs_of(self, name: str) -> Row:
        """What a model costs: fit_s, predict_ms."""
        return {key: self._said[name][2].get(key) for key in ("fit_s", "predict_ms")}

    def later(self, of_all_jobs: Floats) -> Floats:
        """The test jobs' part of an estimate for all jobs."""
        return of_all_jobs[~self.early]

    def result(self) -> DurationComparison:
        errors = {name: log10_errors(self.truth, said[0]) for name, said in self._said.items()}
        days = pd.to_datetime(self.test["submit_time"], utc=True).dt.floor("D")
        blocks = np.unique(days, return_inverse=True)[1].astype(np.intp)
        rows = [
            {
                "model": name,
                **duration_metrics(self.truth, seconds, self.size),
                "r2_mean_head": r_squared(self.truth, mean),
                "coverage_p50": measured.get("coverage_p50"),
                "coverage_p90": measured.get("coverage_p90"),
                "negative_share": float(((seconds < 0) | (mean < 0)).mean()),
                "fit_s": measured.get("fit_s", 0.0),
                "predict_ms": measured.get("predict_ms"),
                "jobs": len(self.truth),
                **compared(errors[name], errors["ebm"], blocks),
            }
            for name, (seconds, mean, measured) in self._said.items()
        ]
        return DurationComparison(rows, self._by_group(errors), self.estimates, len(self.train))

    def _by_group(self, errors: dict[str, Floats]) -> list[Row]:
        rows = []
        for split, group, inside in self._groups():
            for name, error in errors.items():
                rows.append(
                    {
                        "model": name,
                        "split": split,
                        "group": group,
                        "jobs": int(inside.sum()),
                        "mae_log10": float(error[inside].mean()),
                    }
                )
        return rows

    def _groups(self) -> list[tuple[str, str, NDArray[np.bool_]]]:
        """Jobs whose user or name the training days knew and those of new ones; virtual clusters."""
        found: list[tuple[str, str, NDArray[np.bool_]]] = []
        for column in ("user", "name"):
            if column in self.train.columns and self.train[column].notna().any():
                told = self.test[column].notna().to_numpy()
                known = self.test[column].isin(self.train[column].dropna().unique()).to_numpy()
                found += [(column, "known", told & known), (column, "new", told & ~known)]
        if "virtual_cluster" in self.test.columns and self.test["virtual_cluster"].nunique() > 1:
            clusters = self.test["virtual_cluster"].astype(object)
            found += [
                ("virtual_cluster", str(name), (clusters == name).to_numpy())
                for name in sorted(clusters.dropna().unique())
            ]
        return [(split, group, inside) for split, group, inside in found if inside.any()]


def _add_model(
    test: _Test, settings: DurationSettings | None, progress: Progress
) -> tuple[WorkloadEstimateModel, pd.DataFrame]:
    model, fit_s = cpu_timed(lambda: WorkloadEstimateModel(settings).fit(test.train, progress=progress))
    features = model.features_causal(test.test, earlier=test.train, progress=progress)
    rows = features.to_numpy()
    scorers = {"ebm": model.scorer}
    if model.unconstrained is not None:
        scorers["ebm_unconstrained"] = model.unconstrained
    for name, scorer in scorers.items():
        _, took_ms = predict_timed(partial(_p50, scorer, rows))
        p50, p90, mean = scorer.estimate_rows(rows)
        test.add(
            name,
            p50,
            mean,
            coverage_p50=float((test.truth <= p50).mean()),
            coverage_p90=float((test.truth <= p90).mean()),
            fit_s=fit_s,
            predict_ms=took_ms,
        )
        if name == "ebm":
            test.estimates["p90_s"], test.estimates["mean_s"] = p90, mean
    return model, features


def _p50(scorer: DurationScorer, rows: Floats) -> Floats:
    return scorer.estimate_rows(rows)[0]


def _add_naive(test: _Test) -> None:
    """Methods without training; they learn from every job that ends."""
    methods = {
        "size_alone": rival_estimates.size_alone_s,
        "ewma": rival_estimates.user_name_s,
        "helios_rolling": rival_estimates.helios_rolling_s,
    }
    if "user" in test.jobs.columns and test.jobs["user"].notna().any():
        methods["tsafrir"] = rival_estimates.user_history_s
    for name, method in methods.items():
        seconds = test.later(method(test.jobs))
        test.add(name, seconds, seconds)


def _add_causal_boxes(
    test: _Test, model: WorkloadEstimateModel, features: pd.DataFrame, progress: Progress
) -> None:
    """Black boxes on the model's own features: one on log run time for the order, one on seconds."""
    (matrix, logarithm), making_s = cpu_timed(lambda: model.training_rows(test.train))
    rows = features.to_numpy()
    for name in black_boxes.available():
        progress(0, None, f"duration: {name} on causal features")
        log_box, log_s = cpu_timed(partial(black_boxes.fit_regressor, name, matrix, logarithm))
        raw_box, raw_s = cpu_timed(partial(black_boxes.fit_regressor, name, matrix, np.exp(logarithm)))
        said, took_ms = predict_timed(partial(log_box.predict, rows))
        seconds = np.exp(np.clip(said, 0.0, _LARGEST_LOG))
        mean = np.maximum(raw_box.predict(rows), 1.0)
        test.add(name, seconds, mean, fit_s=making_s + log_s + raw_s, predict_ms=took_ms)


def _add_raw_boxes(test: _Test, progress: Progress) -> None:
    """What the papers do: ids as numbers and seconds as they are; Helios mixes its trees with P_R."""
    known = rival_estimates.known_from_s(test.train)
    ended = known <= epoch_seconds(test.test, "submit_time").min()
    taught = test.train[ended]
    columns = authors_recipes.raw_columns(taught, test.test)
    target = taught["duration_s"].to_numpy(dtype=np.float64)
    progress(0, None, "duration: Lucid's own recipe")
    recipe, fit_s = cpu_timed(lambda: authors_recipes.fit_duration(columns, target))
    said, took_ms = predict_timed(partial(recipe.predict, columns.test))
    test.add("lucid_recipe", said, said, fit_s=fit_s, predict_ms=took_ms)
    for name in (box for box in black_boxes.available() if box != "neural"):
        progress(0, None, f"duration: {name} on raw ids")
        box, fit_s = cpu_timed(partial(black_boxes.fit_with_defaults, name, columns.train, target))
        said, took_ms = predict_timed(partial(box.predict, columns.test))
        test.add(f"{name}_raw_ids", said, said, fit_s=fit_s, predict_ms=took_ms)


def _add_helios_mixes(test: _Test) -> None:
    """Helios' mix of its rolling estimate with boosted trees (QSSF): on raw ids, as in the paper, and better.

    The second one, `helios_mix_causal`, mixes with the trees on the model's features instead.
    """
    rolling = test.estimate_of("helios_rolling")
    for name, trees in (
        ("helios_mix", ("lightgbm_raw_ids", "rf_raw_ids")),
        ("helios_mix_causal", ("lightgbm", "rf")),
    ):
        chosen = next(tree for tree in trees if test.has(tree))
        mixed = HELIOS_LAMBDA * rolling + (1.0 - HELIOS_LAMBDA) * test.estimate_of(chosen)
        test.add(name, mixed, mixed, **test.costs_of(chosen))
