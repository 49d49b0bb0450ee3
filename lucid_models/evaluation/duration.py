"""Measures the duration model beside naive methods: jobs after the training days, in the order of submission.

A run time is known only once its job ended (submission + wait + run). Naive methods read the same history;
rivals that must be trained come from the caller.
"""

from datetime import datetime
from functools import partial

import numpy as np
import pandas as pd

from cluster_logs.busy_days import BusyDays
from foundation.errors import BadInputError
from foundation.progress import Progress, silent
from lucid_models.duration.model import DurationSettings, WorkloadEstimateModel, epoch_seconds
from lucid_models.duration.scorer import DurationScorer
from lucid_models.evaluation import rival_estimates
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
from lucid_models.qssf.rolling import rolling_estimates_s

LEAST_JOBS = 10


def evaluate_duration(
    jobs: pd.DataFrame,
    train_days: float,
    *,
    settings: DurationSettings | None = None,
    progress: Progress = silent,
) -> list[Row]:
    """The model and what needs no training on the jobs submitted after the first `train_days` days with jobs.

    Rows {model, kendall_tau, spearman, mae_log10, r2_mean_head, coverage_p50, coverage_p90, negative_share,
    fit_s, predict_ms, jobs, worse_by, ...}; `ebm_unconstrained` is the model before its monotone constraints.
    Both are calibrated online.
    Jobs that never ran (no run time, or zero) are left out. Ranks are of GPU time (GPUs x run time), errors
    of log10 run time, R2 of seconds; `negative_share` of what a model says below zero, which counts as a
    second in ranks and errors. Times are CPU time; `fit_s` includes making the features, `predict_ms` is for
    all test jobs from ready features. `worse_by`: how much the error exceeds the model's (measures.compared,
    blocks of days).

    Raises BadInputError when the split leaves too few jobs on either side.
    """
    test = DurationTest(jobs, train_days)
    test.measure(settings, progress)
    progress(1, 1, "durations evaluated")
    return test.rows()


class DurationTest:
    """The split log and what each model said of its later part."""

    def __init__(self, jobs: pd.DataFrame, train_days: float) -> None:
        ran = jobs[pd.to_numeric(jobs["duration_s"], errors="coerce").astype("Float64").fillna(0) > 0]
        submit = epoch_seconds(ran, "submit_time")
        order = np.argsort(submit, kind="stable")
        self.train_days = train_days
        self.in_log = ran.index[order]  # which rows of the table given these are
        self.jobs = ran.iloc[order].reset_index(drop=True)
        self.early = submit[order] < _split_s(self.jobs["submit_time"], train_days)
        self.train = self.jobs[self.early]
        self.test = self.jobs[~self.early].reset_index(drop=True)
        if len(self.test) < LEAST_JOBS or len(self.train) < LEAST_JOBS:
            raise BadInputError(
                f"{train_days:g} training days leave {len(self.train)} jobs to learn from and "
                f"{len(self.test)} to test.",
                remedy=f"Each part needs {LEAST_JOBS} that ran: split elsewhere, or give a longer log.",
            )
        self.truth = self.test["duration_s"].to_numpy(dtype=np.float64)
        # A job without a GPU counts as one unit, so that CPU logs are ranked by run time x cores or run time.
        self.size = np.maximum(self.test["gpus"].to_numpy(dtype=np.float64), 1.0)
        self.said: dict[str, tuple[Floats, Floats, Row]] = {}
        self.p90_s = np.full(self.truth.shape, np.nan)  # the model's own

    def measure(
        self,
        settings: DurationSettings | None,
        progress: Progress = silent,
        *,
        log: pd.DataFrame | None = None,
        known_until: datetime | None = None,
    ) -> tuple[WorkloadEstimateModel, pd.DataFrame]:
        """Fit the model, and measure it and what needs no training; return it and the test jobs' features.

        The model has learned from the training days, and its statistics and calibration know all that
        happened by `known_until`, by default the last submission. `log`: the table given, with the jobs in it
        that are not measured, but known.
        """
        progress(0, None, "duration: the model")
        fitted = _add_model(self, settings, log, known_until, progress)
        _add_naive(self)
        return fitted

    def add(self, name: str, seconds: Floats, mean: Floats, **measured: float | None) -> None:
        """Take note of a model: what it orders jobs by, its mean run times, what else was measured."""
        self.said[name] = (seconds, mean, measured)

    def later(self, of_all_jobs: Floats) -> Floats:
        """The test jobs' part of an estimate for all jobs."""
        return of_all_jobs[~self.early]

    def rows(self) -> list[Row]:
        """Return a row a model."""
        errors = {name: log10_errors(self.truth, said[0]) for name, said in self.said.items()}
        days = pd.to_datetime(self.test["submit_time"], utc=True).dt.floor("D")
        blocks = np.unique(days, return_inverse=True)[1].astype(np.intp)
        return [
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
            for name, (seconds, mean, measured) in self.said.items()
        ]


def _split_s(submitted: "pd.Series[pd.Timestamp]", train_days: float) -> float:
    """When the days to learn from end (Unix time, s): so many days with jobs after the first submission."""
    if submitted.empty:
        return 0.0
    times = pd.to_datetime(submitted, utc=True)
    first = times.iloc[0]
    return BusyDays(times.dt.date.unique()).after(first.to_pydatetime(), train_days).timestamp()


def _add_model(
    test: DurationTest,
    settings: DurationSettings | None,
    log: pd.DataFrame | None,
    known_until: datetime | None,
    progress: Progress,
) -> tuple[WorkloadEstimateModel, pd.DataFrame]:
    jobs, tested = (test.jobs, test.jobs.index) if log is None else (log, test.in_log)
    tested = tested[~test.early]
    model, fit_s = cpu_timed(
        lambda: WorkloadEstimateModel(settings).fit(
            jobs,
            known_until=known_until,
            learned_until=pd.Timestamp(test.train["submit_time"].iloc[-1]).to_pydatetime(),
            with_unconstrained=True,
            progress=progress,
        )
    )
    later = model.later_jobs
    features = later.features.loc[tested].reset_index(drop=True)
    rows = features.to_numpy()
    said = {"ebm": (model.scorer, later.quantiles)}
    if model.unconstrained is not None and later.unconstrained is not None:
        said["ebm_unconstrained"] = (model.unconstrained, later.unconstrained)
    for name, (scorer, quantiles) in said.items():
        _, took_ms = predict_timed(partial(_p50, scorer, rows))
        p50, p90 = (quantiles.loc[tested, q].to_numpy(dtype=np.float64) for q in ("p50_s", "p90_s"))
        if name == "ebm":
            test.p90_s = p90
        within_p50, within_p90 = (float((test.truth <= quantile).mean()) for quantile in (p50, p90))
        test.add(
            name,
            p50,
            scorer.mean_of(rows),
            coverage_p50=within_p50,
            coverage_p90=within_p90,
            fit_s=fit_s,
            predict_ms=took_ms,
        )
    return model, features


def _p50(scorer: DurationScorer, rows: Floats) -> Floats:
    return scorer.estimate_rows(rows)[0]


def _add_naive(test: DurationTest) -> None:
    """Methods without training; they learn from every job that ends."""
    methods = {
        "size_alone": rival_estimates.size_alone_s,
        "ewma": rival_estimates.user_name_s,
        "helios_rolling": rolling_estimates_s,
    }
    if any(owner is not None for owner in rival_estimates.owner_names(test.jobs)):
        methods["tsafrir"] = rival_estimates.user_history_s
    for name, method in methods.items():
        seconds = test.later(method(test.jobs))
        test.add(name, seconds, seconds)
