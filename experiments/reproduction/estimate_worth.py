"""What run-time estimates are worth: policies under each kind of belief that the trace allows, and the truth.

Not a table of the paper; it says how far Figure 11's "w/o Estimator" is from the best an estimator could do.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from experiments.reproduction.beliefs import WORDS
from experiments.reproduction.runs import Outcome, ReproductionRun
from experiments.reproduction.sections import HOUR_S, Section, name_of
from experiments.reproduction.study import CLARITY, LUCID, Study, figure_of
from foundation.markdown import number
from lucid_models.evaluation.measures import duration_metrics

TRUTH = "truth"
POLICIES = ("qssf", LUCID, CLARITY)


def add_truth(study: Study) -> Study:
    """Return the study with the true run times among its estimates."""
    estimates = {**study.materials.estimates, TRUTH: study.trace.jobs["duration_s"].to_numpy(np.float64)}
    return replace(study, materials=replace(study.materials, estimates=estimates))


def estimate_runs(study: Study) -> list[ReproductionRun]:
    """Each policy that orders by estimates under each kind."""
    return [study.run(policy, estimates=kind) for policy in _policies(study) for kind in _kinds(study)]


def estimate_sections(study: Study, outcomes: Mapping[ReproductionRun, Outcome]) -> list[Section]:
    """Set the kinds of estimates side by side."""
    truth = study.trace.jobs["duration_s"].to_numpy(np.float64)
    gpus = study.trace.jobs["gpus"].to_numpy(np.float64)
    ran = truth > 0
    rows, shown = [], []
    for kind in _kinds(study):
        quality = duration_metrics(truth[ran], study.materials.estimates[kind][ran], gpus[ran])
        line = {
            "estimates": WORDS.get(kind, "the true run times (unknowable in practice)"),
            "Kendall's tau of GPU time": number(quality["kendall_tau"], 3),
        }
        for policy in _policies(study):
            outcome = outcomes[study.run(policy, estimates=kind)]
            jct_s, wait_s = (figure_of(outcome, name) for name in ("mean_jct_s", "mean_queuing_delay_s"))
            rows.append(
                {
                    "estimates": kind,
                    "policy": policy,
                    "mean_jct_s": jct_s,
                    "mean_queuing_delay_s": wait_s,
                    **quality,
                }
            )
            line[f"{name_of(policy)}: JCT, h"] = number(None if jct_s is None else jct_s / HOUR_S)
            line[f"{name_of(policy)}: queue, h"] = number(None if wait_s is None else wait_s / HOUR_S)
        shown.append(line)
    return [
        Section(
            "estimates",
            "What estimates are worth (not in the paper)",
            pd.DataFrame(rows),
            pd.DataFrame(shown),
            ("Kendall's tau: how well the estimates order the jobs by GPUs × run time; 1 is perfect.",),
        )
    ]


def _kinds(study: Study) -> list[str]:
    return [*study.beliefs.estimates, TRUTH]


def _policies(study: Study) -> list[str]:
    return [policy for policy in POLICIES if policy in study.policies]
