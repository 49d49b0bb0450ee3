"""The duration model beside rivals that must be trained too, over all jobs and by group."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from experiments.model_quality.black_box_lead import JobGroup, TaughtTable, black_box_lead
from experiments.model_quality.run_time_coverage import coverage_of_test
from foundation.progress import Progress, silent
from lucid_models.duration.heads import pairs_sentence
from lucid_models.duration.levels import level_rows
from lucid_models.duration.model import DurationSettings, WorkloadEstimateModel
from lucid_models.evaluation.duration import DurationTest
from lucid_models.evaluation.measures import Floats, Row, log10_errors


@dataclass(frozen=True)
class DurationComparison:
    """What was measured.

    - `rows`: one a model, as `evaluate_duration` has them.
    - `by_group`: one a model and group of jobs (known and new users and names, virtual clusters): {model,
      split, group, jobs, mae_log10}.
    - `estimates`: one row a test job: submit_time, virtual_cluster, truth_s, p50_s, p90_s, mean_s of the
      model and one column a rival, in seconds.
    - `levels`: what the model tells jobs apart by (`levels.level_rows`).
    - `pairs`: whether the model takes pairs of features, and why (`pairs.pairs_sentence`).
    - `black_box_lead`: what LightGBM on the same features knows besides, in sentences.
    - `coverage`: how many jobs of each week its quantiles cover (`run_time_coverage.coverage_by_week`).
    """

    rows: list[Row] = field(default_factory=list)
    by_group: list[Row] = field(default_factory=list)
    estimates: pd.DataFrame = field(default_factory=pd.DataFrame)
    train_jobs: int = 0
    levels: list[Row] = field(default_factory=list)
    pairs: str = ""
    coverage: list[Row] = field(default_factory=list)
    black_box_lead: list[str] = field(default_factory=list)


class DurationRivalTest(DurationTest):
    """A test to which rivals are added; `black_box_lead`: what one of them knows besides, in sentences."""

    def __init__(self, jobs: pd.DataFrame, train_days: float) -> None:
        super().__init__(jobs, train_days)
        self.black_box_lead: list[str] = []

    def has(self, name: str) -> bool:
        """Whether the model was measured."""
        return name in self.said

    def estimate_of(self, name: str) -> Floats:
        """What a model orders jobs by, in seconds."""
        return self.said[name][0]

    def costs_of(self, name: str) -> Row:
        """What a model costs: fit_s, predict_ms."""
        return {key: self.said[name][2].get(key) for key in ("fit_s", "predict_ms")}

    def estimates(self) -> pd.DataFrame:
        """Return what each model said of each test job; `p90_s` is the model's own."""
        table = {
            "submit_time": self.test["submit_time"],
            "virtual_cluster": self.test.get("virtual_cluster"),
            "gpus": self.test["gpus"],
            "truth_s": self.truth,
        }
        for name, (seconds, mean, _) in self.said.items():
            own = {"p50_s": seconds, "p90_s": self.p90_s, "mean_s": mean}
            table |= own if name == "ebm" else {name: seconds}
        return pd.DataFrame(table)

    def explain_lead(self, table: TaughtTable) -> None:
        """Say where LightGBM is the better one, once it was added."""
        ours, theirs = (log10_errors(self.truth, self.estimate_of(name)) for name in ("ebm", "lightgbm"))
        words = {"user": "of {} users", "name": "of {} names", "virtual_cluster": "in the virtual cluster {}"}
        groups = [
            JobGroup(split, words[split].format(group), inside) for split, group, inside in self._groups()
        ]
        gpus = self.test["gpus"].to_numpy(dtype=np.float64)
        groups += [JobGroup("size", f"with {size:g} GPUs", gpus == size) for size in np.unique(gpus)]
        self.black_box_lead = black_box_lead(ours, theirs, groups, table)

    def by_group(self) -> list[Row]:
        """Return a row a model and group of jobs."""
        errors = {name: log10_errors(self.truth, said[0]) for name, said in self.said.items()}
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
        groups: list[tuple[str, str, NDArray[np.bool_]]] = []
        for column in ("user", "name"):
            if column in self.train.columns and self.train[column].notna().any():
                has_value = self.test[column].notna().to_numpy()
                seen_in_training = self.test[column].isin(self.train[column].dropna().unique()).to_numpy()
                groups += [
                    (column, "known", has_value & seen_in_training),
                    (column, "new", has_value & ~seen_in_training),
                ]
        if "virtual_cluster" in self.test.columns and self.test["virtual_cluster"].nunique() > 1:
            clusters = self.test["virtual_cluster"].astype(object)
            groups += [
                ("virtual_cluster", str(name), (clusters == name).to_numpy())
                for name in sorted(clusters.dropna().unique())
            ]
        return [(split, group, inside) for split, group, inside in groups if inside.any()]


# Adds rivals to a test: the fitted model and its features of the test jobs are at hand.
DurationRivals = Callable[[DurationRivalTest, WorkloadEstimateModel, pd.DataFrame, Progress], None]


def compare_durations(
    jobs: pd.DataFrame,
    train_days: float,
    *,
    rivals: DurationRivals | None = None,
    settings: DurationSettings | None = None,
    progress: Progress = silent,
) -> DurationComparison:
    """Every model on the jobs submitted after the first `train_days` days; as `evaluate_duration`.

    `rivals` adds what must be trained. Raises BadInputError when the split leaves too few jobs.
    """
    test = DurationRivalTest(jobs, train_days)
    model, features = test.measure(settings, progress)
    if rivals is not None:
        rivals(test, model, features, progress)
    progress(1, 1, "durations evaluated")
    return DurationComparison(
        rows=test.rows(),
        by_group=test.by_group(),
        estimates=test.estimates(),
        train_jobs=len(test.train),
        levels=level_rows(model.scorer.training["levels"]),
        pairs=pairs_sentence(model.scorer.training["pairs"]),
        coverage=coverage_of_test(test, model, features),
        black_box_lead=test.black_box_lead,
    )
