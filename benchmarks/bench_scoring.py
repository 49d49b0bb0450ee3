"""Time to estimate a queue with the saved models, beside the training library on the same rows.

    python benchmarks/bench_scoring.py [--jobs N] [--repeats N] [--json FILE] [--write PAGE]

Medians of processor time in one process and one run; nothing here uses more than one thread. "standing" is a
queue that a scheduler keeps: between two questions two seconds pass, and a job of keys that the queue has
ends, another starts and is submitted, which is not counted. "assembled" also reads every job from its
mapping; "rows" scores feature rows that are there already. The log is made up (seeded): users, names and
sizes recur.
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from bench_simulator import commit, machine

from experiments.pages import publish
from lucid_models.additive_scorer import AdditiveScorer
from lucid_models.boosting import scorer_of
from lucid_models.duration.levels import learned_features
from lucid_models.duration.model import WorkloadEstimateModel, job_mappings
from lucid_models.duration.queue_scorer import QueueScorer
from lucid_models.duration.scorer import LiveCalibration
from lucid_models.scoring import DurationScorer, scorer_from_document

SEED = 20_200_401
TRAINING_JOBS = 8_000


def make_log(jobs: int) -> pd.DataFrame:
    """Recurring jobs of 60 users over 20 days."""
    rng = np.random.default_rng(SEED)
    user = rng.integers(0, 60, jobs)
    kind = rng.integers(0, 12, jobs)
    gpus = rng.choice([1, 1, 1, 2, 4, 8], jobs)
    typical = rng.normal(6.0, 1.5, (60, 12))
    duration = np.exp(typical[user, kind] + 0.3 * np.log(gpus) + rng.normal(0, 0.6, jobs)) + 1.0
    submit = np.sort(rng.uniform(0, 20 * 86_400, jobs))
    start = pd.Timestamp("2020-04-01", tz="UTC") + pd.to_timedelta(submit, unit="s").round("s")
    return pd.DataFrame(
        {
            "job_id": [f"j{number}" for number in range(jobs)],
            "virtual_cluster": [f"vc{number % 9}" for number in user],
            "user": [f"u{number}" for number in user],
            "name": [f"net{k}_run{r}" for k, r in zip(kind, rng.integers(0, 20, jobs), strict=True)],
            "gpus": gpus,
            "submit_time": start,
            "start_time": start,
            "end_time": start + pd.to_timedelta(duration, unit="s"),
            "duration_s": duration,
        }
    )


def median_ms(call: Callable[[], object], repeats: int, before: Callable[[], object] | None = None) -> float:
    """Median milliseconds of processor time of a call, after one that does not count; `before` each, more."""
    times = []
    for _ in range(repeats + 1):
        if before is not None:
            before()
        began = time.process_time()
        call()
        times.append(1e3 * (time.process_time() - began))
    return statistics.median(times[1:])


class StandingQueue:
    """A queue that is asked again and again while time passes and jobs arrive, start and end."""

    def __init__(self, scorer: DurationScorer, queue: list[dict[str, Any]]) -> None:
        self.state, self.at_s = scorer.state, scorer.state.now_s + 60.0
        self.learning = LiveCalibration(scorer)
        for job in queue:
            self.state.observe_submit(job)
        self.waiting = QueueScorer(scorer)
        self.waiting.add(queue)
        self._jobs, self._asked = queue, 0
        self._running: dict[str, Any] | None = None

    def happen(self) -> None:
        """Let two seconds pass, in which a job ends and another arrives that has keys of the queue's jobs."""
        self.at_s += 2.0
        if self._running is not None:
            self.state.observe_end({**self._running, "end_time_s": self.at_s, "duration_s": 2.0})
            self.learning.ended(self._running["job_id"], self.at_s, 2.0)
        like = self._jobs[7 * self._asked % len(self._jobs)]
        self._running = {**like, "job_id": f"passing{self._asked}", "submit_time_s": self.at_s}
        self.state.observe_submit(self._running)
        self.learning.submitted(self._running, self.at_s)
        self.state.observe_start(self._running["job_id"], self.at_s)
        self.learning.started(self._running["job_id"], self.at_s)
        self.learning.catch_up()
        self._asked += 1

    def estimate(self) -> np.ndarray:
        """Ask as of now."""
        return self.waiting.estimate(self.at_s)


def library_model(rows: np.ndarray, target: np.ndarray) -> object:
    """The training library's own model over the same features, to be measured beside ours."""
    from interpret.glassbox import ExplainableBoostingRegressor

    return ExplainableBoostingRegressor(
        interactions=0,
        outer_bags=2,
        max_rounds=300,
        max_bins=128,
        n_jobs=1,
        feature_types=["continuous"] * rows.shape[1],
    ).fit(rows, target)


def measure(jobs: int, repeats: int) -> dict[str, float]:
    log = make_log(TRAINING_JOBS + jobs)
    model = WorkloadEstimateModel().fit(log.iloc[:TRAINING_JOBS])
    scorer = scorer_from_document(json.loads(json.dumps(model.to_data())))
    if not isinstance(scorer, DurationScorer):
        raise SystemExit("The saved duration model came back as another kind.")
    queue = job_mappings(log.iloc[TRAINING_JOBS:])
    places = learned_features(scorer.state.names)
    rows = scorer.features(queue)[:, places]
    lesson, logarithm = model.training_rows(log.iloc[:TRAINING_JOBS])
    theirs = library_model(lesson, logarithm)
    ours: AdditiveScorer = scorer_of(theirs, tuple(scorer.state.names[place] for place in places))
    difference = float(np.abs(ours.predict(rows) - theirs.predict(rows)).max())  # type: ignore[attr-defined]
    if difference > 1e-9:
        raise SystemExit(f"The scorer differs from the training library by {difference:g}.")
    standing = StandingQueue(scorer, queue)
    for _ in range(5):
        standing.happen()
        apart = float(np.abs(standing.estimate() / scorer.predict(queue, standing.at_s) - 1.0).max())
        if apart > 1e-9:
            raise SystemExit(f"The standing queue differs from its jobs by {apart:g}.")
    one, first = rows[0].tolist(), rows[:1]
    return {
        "features": float(rows.shape[1]),
        "queue_standing_ms": median_ms(standing.estimate, 5 * repeats, standing.happen),
        "queue_assembled_ms": median_ms(lambda: scorer.predict(queue), repeats),
        "queue_with_reasons_ms": median_ms(lambda: scorer.estimate(queue), max(repeats // 5, 3)),
        "queue_rows_ms": median_ms(lambda: ours.predict(rows), repeats),
        "queue_rows_library_ms": median_ms(lambda: theirs.predict(rows), repeats),  # type: ignore[attr-defined]
        "one_assembled_ms": median_ms(lambda: scorer.predict(queue[:1]), 20 * repeats),
        "one_row_ms": median_ms(lambda: ours.score_one(one), 20 * repeats),
        "one_row_library_ms": median_ms(lambda: theirs.predict(first), repeats),  # type: ignore[attr-defined]
        "largest_difference": difference,
    }


def page_table(figures: Mapping[str, float], jobs: int, load: float) -> str:
    """Return the Markdown table of what a queue costs."""
    rows = [
        ("keeps its queue (the live scheduler)", "queue_standing_ms", ""),
        ("hands it over whole", "queue_assembled_ms", "10"),
        ("hands it over whole and asks why (`lucid live rank`, `/v1/decide`)", "queue_with_reasons_ms", "60"),
        ("has the features already", "queue_rows_ms", ""),
        ("the same, by the training library", "queue_rows_library_ms", ""),
    ]
    measured = (
        f"Measured at commit {commit('lucid_models')} on {machine()}, by `python benchmarks/"
        f"bench_scoring.py --write docs/benchmarks.md`; {load:.1f} other processes wanted the cores."
    )
    lines = [
        measured,
        "",
        f"| caller that asks about {jobs:,} jobs | median ms of processor time | aim |",
        "| --- | ---: | ---: |",
        *(f"| {caller} || {figures[name]:.2f} | {aim} |" for caller, name, aim in rows),
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Time to estimate a queue with the saved models.")
    parser.add_argument("--jobs", type=int, default=2_048)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--write", type=Path, help="the page to put the table into")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    figures = measure(options.jobs, options.repeats)
    if options.write:
        publish({"queue-estimates": page_table(figures, options.jobs, load)}, options.write)
    for name, value in figures.items():
        print(f"{name:26} {value:10.4g}")
    print(f"{'rows: ours / library':26} {figures['queue_rows_ms'] / figures['queue_rows_library_ms']:10.3f}")
    print(f"{'one: ours / library':26} {figures['one_row_ms'] / figures['one_row_library_ms']:10.3f}")
    if options.json:
        options.json.write_text(
            json.dumps({"jobs": options.jobs, "python": sys.version, **figures}, indent=2)
        )


if __name__ == "__main__":
    main()
