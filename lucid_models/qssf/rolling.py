"""The rolling estimate P_R of Helios' QSSF (SC '21, section 4.2.2): what past jobs like a new one took."""

from collections.abc import Hashable, Sequence

import numpy as np
import pandas as pd

from foundation.float_sums import add_in_order
from lucid_models.evaluation.rival_estimates import (
    UNKNOWN_S,
    Floats,
    estimate_causally,
    owners,
    texts_or_none,
)
from lucid_models.qssf.rules import PUBLISHED, QssfRules
from lucid_models.qssf.similar_names import (
    BestOfAllNames,
    NameMatcher,
    OwnNameGroups,
    compared_name,
)

DECAY = 0.7  # weight of what was known when a similarly named job ends (newer jobs count more)


class _RunTimes:
    """Run times of ended jobs: their sum and number, and their decayed mean."""

    __slots__ = ("decayed_s", "jobs", "sum_s")

    def __init__(self) -> None:
        self.sum_s, self.jobs, self.decayed_s = 0.0, 0, 0.0

    def add(self, duration_s: float) -> None:
        self.sum_s += duration_s
        self.decayed_s = duration_s if not self.jobs else DECAY * self.decayed_s + (1 - DECAY) * duration_s
        self.jobs += 1


class RollingEstimator:
    """What has ended so far, and what follows from it for a new job.

    An `owner` is a user, or what stands for one in a log without users. A job without a name is like no
    other.
    """

    def __init__(self, rules: QssfRules = PUBLISHED) -> None:
        self.rules = rules
        matcher = OwnNameGroups if rules.similar_names == "levenshtein" else BestOfAllNames
        self._names: NameMatcher = matcher(rules.least_similarity)
        self._ended: dict[Hashable, _RunTimes] = {}
        self._owners: set[Hashable] = set()

    def ended(self, owner: Hashable, family: str | None, gpus: int, duration_s: float) -> None:
        """Learn that a job has ended, having run for `duration_s`."""
        self._owners.add(owner)
        # Keys: of the name (and its GPU demand), of the user, of all users.
        keys: list[Hashable] = [("user", owner), ("user", owner, gpus), ("all",), ("all", gpus)]
        if family is not None:
            for key in self._names.counted_under(owner, family):
                keys += [("name", key), ("name", key, gpus)]
        for key in keys:
            self._ended.setdefault(key, _RunTimes()).add(duration_s)

    def estimate_s(self, owner: Hashable, family: str | None, gpus: int) -> float:
        """Return the estimated run time (s), an hour before any job has ended."""
        if owner in self._owners:
            mean_s = None if family is None else self._of_similar_names(owner, family, gpus)
            if mean_s is None:
                same_gpus = self.rules.new_name == "same_gpus"
                mean_s = self._mean([("user", owner, gpus) if same_gpus else ("user", owner)])
            if mean_s is not None:
                return mean_s
        if (owner in self._owners or self.rules.new_user == "same_gpus") and (
            mean_s := self._mean([("all", gpus)])
        ) is not None:
            return mean_s
        mean_s = self._mean([("all",)])
        return UNKNOWN_S if mean_s is None else mean_s

    def _of_similar_names(self, owner: Hashable, family: str, gpus: int) -> float | None:
        for keys in self._names.matching(owner, family):
            if self.rules.matched == "decayed":
                mean_s = self._decayed([("name", key) for key in keys])
            else:
                mean_s = self._mean([("name", key, gpus) for key in keys])
                if mean_s is None:
                    mean_s = self._mean([("name", key) for key in keys])
            if mean_s is not None:
                return mean_s
        return None

    def _mean(self, keys: Sequence[Hashable]) -> float | None:
        ended = [self._ended[key] for key in keys if key in self._ended]
        return add_in_order(one.sum_s for one in ended) / sum(one.jobs for one in ended) if ended else None

    def _decayed(self, keys: Sequence[Hashable]) -> float | None:
        """Return the decayed mean; of several names, weighted by their numbers of jobs."""
        ended = [self._ended[key] for key in keys if key in self._ended]
        if not ended:
            return None
        return add_in_order(one.decayed_s * one.jobs for one in ended) / sum(one.jobs for one in ended)


def rolling_estimates_s(jobs: pd.DataFrame, rules: QssfRules = PUBLISHED) -> Floats:
    """Return the rolling estimate of every job, shape (jobs,), at least 1 s, from what had ended by then.

    `jobs` are a job table's rows in order of submission, history first. Where the log has no users, the
    virtual cluster stands for the user.
    """
    estimator = RollingEstimator(rules)
    of_job, gpus = owners(jobs), jobs["gpus"].to_numpy(dtype=np.int64).tolist()
    families = [None if name is None else compared_name(name) for name in texts_or_none(jobs, "name")]

    def learn(row: int, duration_s: float) -> None:
        estimator.ended(of_job[row], families[row], gpus[row], duration_s)

    def estimate(row: int) -> float:
        return estimator.estimate_s(of_job[row], families[row], gpus[row])

    return estimate_causally(jobs, learn, estimate)
