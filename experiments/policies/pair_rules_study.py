"""What Lucid gains when it packs by predicted speeds of pairs instead of summed sharing scores.

`python -m experiments.policies.pair_rules_study DATA` prints the table; DATA is the folder that
LUCID_REFERENCE_DATA names. With `--write docs/policies.md` it goes between that page's markers.

The measured pairs are the truth, capped at full speed. Job types are drawn uniformly from the measured ones,
anew for each draw. `unseen models`: each job is judged by models that learned from no measurement of any
configuration of its own model, as when a cluster's programs are new; a pair by the mean of the two.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.pages import run_study
from experiments.policies.philly_slices import PhillySlices, SliceSpec
from foundation.markdown import markdown_table
from live_scheduler.deciding.live_policies import PredictedPairs, believed_pairs
from lucid_models.evaluation.baselines import UTILISATION_SUM_PCT
from lucid_models.packing.model import PackingAnalyzeModel, PackingSettings, feature_matrix
from pipeline.replay.job_types import profiles_by_type
from profiler_jobs.profile_table import read_pair_profiles, read_solo_profiles
from simulator.cluster.spec import ClusterSpec
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario
from simulator.workload.colocation import (
    SLOWDOWN_PER_PCT,
    BelievedPairs,
    ColocationModel,
    MeasuredPairs,
    SummedUtilisation,
)
from simulator.workload.job import JobProfile
from simulator.workload.workload import Workload

REFERENCE_NODES = (40, 48, 64)
# Cut for the study of Clarity's ideas, where they chose nothing either.
OTHER_SLICES = (
    SliceSpec("2017-10-08", 7, 44, 1),
    SliceSpec("2017-10-15", 7, 60, 2),
    SliceSpec("2017-11-06", 7, 40, 3),
)
DRAWS = 3
KINDS = PackingSettings(kind="pairwise")


@dataclass(frozen=True)
class Rule:
    """Lucid's settings, what it believes of pairs, and the sharing scores of job types."""

    label: str
    settings: Mapping[str, Any]
    believed: BelievedPairs | None = None
    scores: Mapping[str, int] = field(default_factory=dict)


class UnseenModels:
    """Speeds of pairs as predicted without the measurements of either job's model, in turn."""

    def __init__(self, without: Mapping[str, ColocationModel], model_of: Mapping[str, str]) -> None:
        self._without, self._model_of = without, model_of

    def speeds(self, first: JobProfile | None, second: JobProfile | None) -> tuple[float, float]:
        """The mean of the two predictions."""
        found = [
            self._without[self._model_of[str(job.job_type)]].speeds(first, second)
            for job in (first, second)
            if job is not None
        ]
        return float(np.mean([low for low, _ in found])), float(np.mean([high for _, high in found]))


def packing_rules(solo: pd.DataFrame, pairs: pd.DataFrame) -> list[Rule]:
    """The rules that are compared, the tree's first."""
    everything = PackingAnalyzeModel(KINDS).fit(solo, pairs)
    model_of = dict(zip(solo["job_type"].astype(str), solo["model"].astype(str), strict=True))
    models = sorted(set(model_of.values()))
    without: dict[str, PackingAnalyzeModel] = {}
    for model in models:
        others = solo[solo["model"] != model]
        left = pairs["job_type_1"].map(model_of).ne(model) & pairs["job_type_2"].map(model_of).ne(model)
        without[model] = PackingAnalyzeModel(KINDS).fit(others, pairs[left])
    unseen_scores: dict[str, int] = {}
    for model in models:
        rows = solo[solo["model"] == model]
        found = without[model].tree.predict(feature_matrix(rows))
        unseen_scores |= dict(zip(rows["job_type"].astype(str), map(int, found), strict=True))
    scores = dict(zip(solo["job_type"].astype(str), map(int, everything.predict_table(solo)), strict=True))
    by_pairs = {"packing_rule": "pairs"}
    scorers = {model: fitted.pairwise for model, fitted in without.items() if fitted.pairwise is not None}
    unseen = BelievedPairs(
        UnseenModels({model: PredictedPairs(scorer) for model, scorer in scorers.items()}, model_of),
        float(np.mean([scorer.mean_speed_min for scorer in scorers.values()])),
    )
    # The fall-back model says the same as a limit on the sum: it falls straight above 100 %.
    limit = BelievedPairs(SummedUtilisation(), 1.0 - SLOWDOWN_PER_PCT * (UTILISATION_SUM_PCT - 100.0))
    measured = BelievedPairs(MeasuredPairs(pairs), KINDS.medium_from)
    return [
        Rule("tree: scores sum to at most 2", {}, scores=scores),
        Rule("tree, unseen models", {}, scores=unseen_scores),
        Rule("pairwise model", by_pairs, believed_pairs(everything)),
        Rule("pairwise model, unseen models", by_pairs, unseen),
        Rule(f"GPU utilisations sum to at most {UTILISATION_SUM_PCT} %", by_pairs, limit),
        Rule(f"measured mean speed at least {KINDS.medium_from}", by_pairs, measured),
        Rule("naive packing (without binder)", {"packing": "naive"}),
        Rule("without sharing", {"sharing": "none"}),
    ]


def rules_table(data: Path) -> str:
    """Return the Markdown table: mean JCT (s) of each rule by slice, over the draws of job types."""
    folder = data / "data" / "packing"
    solo = read_solo_profiles(folder / "single_jobs_rtx3090.csv")
    pairs = read_pair_profiles(folder / "colocated_pairs_rtx3090.csv")
    rules = packing_rules(solo, pairs)
    profiles, truth = profiles_by_type(solo), MeasuredPairs(pairs)
    columns: dict[str, list[str]] = {"packing rule": [rule.label for rule in rules]}
    percents: list[list[float]] = [[] for _ in rules]
    for name, part in _slices(data):
        found = np.array(
            [
                [
                    _mean_jct_s(part.workload, part.cluster, rule, profiles, truth, draw)
                    for draw in range(DRAWS)
                ]
                for rule in rules
            ]
        )
        columns[name] = [f"{row.mean():,.0f}" for row in found]
        for of_rule, row in zip(percents, found, strict=True):
            of_rule += (100.0 * (row / found[0] - 1.0)).tolist()
    columns["to the tree: mean (least to most)"] = [
        f"{np.mean(found):+.1f} % ({min(found):+.1f} to {max(found):+.1f})" for found in percents
    ]
    return markdown_table(list(columns), zip(*columns.values(), strict=True), align_numbers=False)


def _slices(data: Path) -> Iterator[tuple[str, Scenario]]:
    slices = PhillySlices(data)
    for nodes in REFERENCE_NODES:
        yield f"week1, {nodes} nodes", slices.reference(nodes)
    for spec in OTHER_SLICES:
        yield str(spec), slices.cut(spec)


def _mean_jct_s(
    workload: Workload,
    cluster: ClusterSpec,
    rule: Rule,
    profiles: Mapping[str, JobProfile],
    truth: ColocationModel,
    draw: int,
) -> float:
    """Replay the slice with the job types of one draw, the same for every rule."""
    scored = {
        name: replace(profile, sharing_score=rule.scores.get(name)) for name, profile in profiles.items()
    }
    names = np.random.default_rng(draw).choice(sorted(scored), len(workload))
    jobs = tuple(
        replace(job, profile=scored[name], template=name)
        for job, name in zip(workload.jobs, names.tolist(), strict=True)
    )
    result = simulate(
        Scenario(replace(workload, jobs=jobs), cluster, colocation=truth, believed_pairs=rule.believed),
        "lucid",
        settings=rule.settings,
    )
    return float(result.summary["mean_jct_s"])


def tables(data: Path) -> dict[str, str]:
    """Return the table by the name of its markers."""
    return {"packing rules": rules_table(data)}


if __name__ == "__main__":
    run_study("experiments.policies.pair_rules_study", __doc__, tables)
