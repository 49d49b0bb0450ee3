"""The whole evaluation of Lucid's paper on one trace."""

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from experiments.pages import commit_text, machine_text
from experiments.reproduction.ablations import ablation_runs, ablation_sections
from experiments.reproduction.claims import Evidence, claims_section, standing
from experiments.reproduction.estimate_worth import add_truth, estimate_runs, estimate_sections
from experiments.reproduction.latency import QUEUE_LENGTHS, latency_section
from experiments.reproduction.model_updates import add_updates, update_runs, update_sections
from experiments.reproduction.overall import overall_runs, overall_sections
from experiments.reproduction.report import Report
from experiments.reproduction.runs import Outcome, ReproductionRun, execute
from experiments.reproduction.sections import Section
from experiments.reproduction.sensitivity import sensitivity_runs, sensitivity_sections
from experiments.reproduction.sharing import Measurements
from experiments.reproduction.study import CLARITY, LUCID, Study, make_study
from experiments.reproduction.testbed import add_testbed, testbed_runs, testbed_sections
from experiments.reproduction.trace import ReproductionTrace
from foundation.csv_files import write_csv
from foundation.progress import Progress, silent


@dataclass(frozen=True)
class Evaluation:
    """A finished evaluation: every run's outcome, and the report on it."""

    study: Study
    outcomes: Mapping[ReproductionRun, Outcome]
    report: Report

    def runs_table(self) -> pd.DataFrame:
        """Every simulation with its summary figures, one row each."""
        rows = []
        for run, outcome in self.outcomes.items():
            plain = {
                key: value
                for key, value in outcome.summary.items()
                if isinstance(value, int | float | str | bool) and key != "policy"
            }
            rows.append(
                {
                    "policy": run.policy,
                    "settings": "; ".join(f"{name}={value}" for name, value in run.settings),
                    "workload": run.workload,
                    "estimates": run.estimates,
                    "profiles": run.profiles,
                    "forecast": run.forecast,
                    **plain,
                    "failed": outcome.failed,
                }
            )
        return pd.DataFrame(rows)


def evaluate(
    trace: ReproductionTrace,
    measured: Measurements,
    *,
    policies: Sequence[str] | None = None,
    seed: int = 0,
    workers: int = 2,
    queue_lengths: tuple[int, ...] = QUEUE_LENGTHS,
    command: str | None = None,
    progress: Progress = silent,
) -> Evaluation:
    """Run everything on a trace and write the report's text.

    `policies` defaults to all that are registered. Raises BadInputError where Lucid lacks a setting that an
    ablation needs, UnknownNameError for an unknown policy.
    """
    study = make_study(trace, measured, policies=policies, seed=seed, workers=workers, progress=progress)
    runs = [run for maker in (overall_runs, ablation_runs, sensitivity_runs) for run in maker(study)]
    study = add_updates(add_testbed(add_truth(study)), progress=progress)
    runs += [run for maker in (testbed_runs, update_runs, estimate_runs) for run in maker(study)]
    outcomes = execute(study.materials, runs, workers=workers, progress=progress)
    latency = latency_section(study, queue_lengths)
    evidence = Evidence(study, outcomes, latency.tidy)
    sections = [
        claims_section(evidence),
        *overall_sections(study, outcomes),
        *testbed_sections(study, outcomes),
        latency,
        *ablation_sections(study, outcomes),
        *sensitivity_sections(study, outcomes),
        *update_sections(study, outcomes),
        *estimate_sections(study, outcomes),
        _left_out(),
    ]
    report = Report(
        f"Lucid's evaluation on {trace.title}",
        origin(study, command),
        (
            (
                "The tables and figures of *Lucid* (ASPLOS '23, section 4) on this trace, under the paper's "
                "numbers, with what the paper published beside what was measured here."
            ),
            "\n".join(
                f"- {sentence}" for policy in (LUCID, CLARITY) for sentence in standing(evidence, policy)
            ),
        ),
        study.remarks(),
        sections,
    )
    return Evaluation(study, outcomes, report)


def origin(study: Study, command: str | None) -> dict[str, str]:
    """Say where the numbers come from: data, window, commit, machine, command. No date."""
    submit = study.trace.jobs["submit_time"]
    return {
        "data": study.trace.source,
        "window": f"{submit.min():%Y-%m-%d %H:%M} to {submit.max():%Y-%m-%d %H:%M} UTC",
        "colocation": (
            "simulated GPU"
            if study.measured.simulated
            else "pairs measured on an RTX 3090 by Lucid's authors"
        ),
        "commit": commit_text(),
        "machine": machine_text(),
        "seed": str(study.seed),
        "command": f"`{command or shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])}`",
    }


def write_runs(evaluation: Evaluation, out_dir: Path) -> Path:
    """Write runs.csv: every simulation of the evaluation."""
    out_dir.mkdir(parents=True, exist_ok=True)
    path = out_dir / "runs.csv"
    write_csv(evaluation.runs_table(), path)
    return path


def _left_out() -> Section:
    return Section(
        "left_out",
        "What is not here",
        pd.DataFrame(),
        pd.DataFrame(),
        (
            (
                "Table 7 and Figure 13 (model quality) are `lucid evaluate duration|throughput|packing`; "
                "Figures 6 and 7 (interpretation) are in every trained model's card. Of Figure 10 (b), one "
                "training time is among the claims. Figure 14 (Pollux) needs jobs that change their batch "
                "size, which no public log holds, and the physical columns of Table 3 need the paper's "
                "testbed."
            ),
        ),
    )
