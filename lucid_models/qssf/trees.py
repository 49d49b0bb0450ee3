"""The trees' estimate P_M of Helios' QSSF (SC '21, section 4.2.2): boosted trees on how a job is submitted.

The paper boosts trees of an unnamed library, its artifact names LightGBM and does not hold the training. Here
they are scikit-learn's histogram-based ones (the same algorithm) with the library's default settings, on
encoded users, virtual clusters and buckets of names, sizes and the parts of the submission time, learning run
times in seconds, as the paper does.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import extractOne
from sklearn.ensemble import HistGradientBoostingRegressor

from foundation.errors import BadInputError
from foundation.progress import Progress, silent
from lucid_models.duration.bucket_learning import learn_buckets
from lucid_models.duration.name_buckets import LONGEST
from lucid_models.duration.tables import epoch_seconds
from lucid_models.evaluation.rival_estimates import Floats, known_from_s, texts_or_none
from lucid_models.qssf.similar_names import compared_name, has_letters

DAY_S = 86_400.0
LEAST_JOBS = 50  # fewer ended jobs are not learned from


@dataclass(frozen=True)
class TreeUpdates:
    """When the trees are fitted, in days from the log's first submission, and on how many of the newest jobs.

    The first fit is after `first_fit_days`, further ones follow every `refit_days` (None: none). Each learns
    from the jobs with a run time known by then.
    """

    first_fit_days: float = 7.0
    refit_days: float | None = 30.0
    most_jobs: int = 200_000
    seed: int = 0

    def __post_init__(self) -> None:
        for name, days in (("first_fit_days", self.first_fit_days), ("refit_days", self.refit_days)):
            if days is not None and not days > 0:
                raise BadInputError(f"{name} is {days}.", remedy="Choose a number of days above 0.")
        for name, number, least in (("most_jobs", self.most_jobs, LEAST_JOBS), ("seed", self.seed, 0)):
            if number < least:
                raise BadInputError(f"{name} is {number}.", remedy=f"Choose {least} or more.")

    def fits_s(self, first_s: float, last_s: float) -> list[float]:
        """Return the moments (Unix seconds) of all fits of a log from its first to its last submission."""
        moments = []
        fit_s = first_s + self.first_fit_days * DAY_S
        while fit_s <= last_s:
            moments.append(fit_s)
            if self.refit_days is None:
                break
            fit_s += self.refit_days * DAY_S
        return moments


def tree_estimates_s(
    jobs: pd.DataFrame, updates: TreeUpdates | None = None, *, progress: Progress = silent
) -> Floats:
    """Return what the trees say of every job, shape (jobs,); NaN for jobs before the first fit.

    A job is estimated by the newest trees that were fitted by its submission; they may say less than 0.
    """
    plan = updates or TreeUpdates()
    estimates_s = np.full(len(jobs), np.nan)
    submit, known_from = epoch_seconds(jobs, "submit_time"), known_from_s(jobs)
    duration = jobs["duration_s"].to_numpy(dtype=np.float64, na_value=np.nan)
    usable = np.isfinite(known_from) & (duration >= 0)
    if not len(jobs):
        return estimates_s
    plain = _plain_columns(jobs)
    moments = plan.fits_s(float(submit.min()), float(submit.max()))
    for number, (fit_s, until_s) in enumerate(pairwise([*moments, np.inf])):
        progress(number, len(moments), "QSSF's trees")
        ended = np.flatnonzero(usable & (known_from <= fit_s))
        if len(ended) < LEAST_JOBS:
            continue
        learned = ended[np.argsort(submit[ended], kind="stable")][-plan.most_jobs :]
        scored = np.flatnonzero((submit >= fit_s) & (submit < until_s))
        if len(scored):
            encode = _encoder(jobs.iloc[learned])
            columns = np.column_stack([plain[learned], encode(jobs.iloc[learned])])
            has_value = np.isfinite(columns).any(axis=0)  # trees take no column without any value
            trees = HistGradientBoostingRegressor(early_stopping=False, random_state=plan.seed)
            trees.fit(columns[:, has_value], duration[learned])
            columns = np.column_stack([plain[scored], encode(jobs.iloc[scored])])
            estimates_s[scored] = trees.predict(columns[:, has_value])
    return estimates_s


def _plain_columns(jobs: pd.DataFrame) -> Floats:
    """Sizes and the parts of the submission time, shape (jobs, 6)."""
    time = pd.to_datetime(jobs["submit_time"], utc=True).dt
    cpus = jobs["cpus"] if "cpus" in jobs.columns else pd.Series(np.nan, index=jobs.index)
    columns = [
        jobs["gpus"].to_numpy(dtype=np.float64),
        cpus.to_numpy(dtype=np.float64, na_value=np.nan),
        time.month,
        time.day_of_week,
        time.hour,
        time.minute,
    ]
    return np.column_stack([np.asarray(column, dtype=np.float64) for column in columns])


def _encoder(learned: pd.DataFrame) -> Callable[[pd.DataFrame], Floats]:
    """Return what numbers users, virtual clusters and buckets of names, in the order of their appearance.

    What did not appear is -1, what is unknown NaN.
    """
    buckets = _NameLabels(name for name in texts_or_none(learned, "name") if name is not None)

    def labels(jobs: pd.DataFrame) -> list[list[str | None]]:
        names = [None if name is None else buckets.label(name) for name in texts_or_none(jobs, "name")]
        return [list(texts_or_none(jobs, "user")), list(texts_or_none(jobs, "virtual_cluster")), names]

    numbers = [
        {label: float(number) for number, label in enumerate(dict.fromkeys(column)) if label is not None}
        for column in labels(learned)
    ]

    def encode(jobs: pd.DataFrame) -> Floats:
        return np.column_stack(
            [
                np.array([np.nan if label is None else of.get(label, -1.0) for label in column])
                for of, column in zip(numbers, labels(jobs), strict=True)
            ]
        )

    return encode


class _NameLabels:
    """Buckets of similar names, as the duration model learns them; a name without letters is its own."""

    def __init__(self, names: Iterable[str]) -> None:
        self._buckets = learn_buckets(name for name in names if has_letters(name))
        self._labels: dict[str, str | None] = {}

    def label(self, name: str) -> str | None:
        """Return the bucket of a name; None: it is like none."""
        compared = compared_name(name)
        if compared not in self._labels:
            self._labels[compared] = self._nearest(compared[:LONGEST]) if has_letters(name) else name
        return self._labels[compared]

    def _nearest(self, family: str) -> str | None:
        """As NameBuckets does, which is for NumPy alone and a hundred times slower."""
        nearest = extractOne(
            family,
            self._buckets.exemplars,
            scorer=Levenshtein.normalized_distance,
            score_cutoff=self._buckets.most_distance,
        )
        return None if nearest is None else str(nearest[0])
