"""Figure 11: what each part of Lucid is worth, by switching it off."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import pandas as pd

from experiments.reproduction import plots
from experiments.reproduction.runs import Outcome, ReproductionRun
from experiments.reproduction.sections import Section, name_of, not_measured
from experiments.reproduction.study import LUCID, Study
from foundation.errors import BadInputError
from foundation.markdown import number
from simulator.policies.lucid import LucidSettings

TITLE = "Figure 11: ablations"


@dataclass(frozen=True)
class Ablation:
    """A variant of Lucid: `settings` switch a part off, as `meaning` says."""

    name: str
    meaning: str
    settings: Mapping[str, Any]
    forecast: bool = False


WITHOUT_BINDER = Ablation("w/o Binder", "naive bin packing instead of indolent packing", {"packing": "naive"})
WITHOUT_SHARING = Ablation("w/o Sharing", "every job has its GPUs for itself", {"sharing": "none"})
WITHOUT_ESTIMATOR = Ablation("w/o Estimator", "neither order nor binder know run times", {"order": "gpus"})
VARIANTS = (WITHOUT_BINDER, WITHOUT_SHARING, WITHOUT_ESTIMATOR)

# The paper profiles every small job before it queues. Ours measures jobs that find idle GPUs where
# they run.
ALL_PROFILED: Mapping[str, Any] = {"profiling_in_place": False}
OUR_VARIANTS = (
    Ablation("all profiled first", "no profiling in place, as in the paper", ALL_PROFILED),
    Ablation(
        "fixed profiler",
        "no time-aware scaling, no borrowed nodes",
        {"profiling_scales": False, "borrowed_nodes_max": 0},
    ),
    Ablation("w/o Profiler", "no node set aside; jobs are measured where they run", {"profiling_nodes": 0}),
    Ablation(
        "with a forecast",
        "the dynamic strategy shares less when load is low and not rising",
        {},
        forecast=True,
    ),
)

# Figure 11 (b): time-aware scaling off, T_prof 500 s, N_prof 36 (section 4.5).
_FIXED_PROFILER: Mapping[str, Any] = {
    **ALL_PROFILED,
    "profiling_scales": False,
    "borrowed_nodes_max": 0,
    "profiling_limit_s": 500.0,
    "profiling_max_gpus": 36,
}
WITH_SPACE_AWARE = Ablation("with S.A.", "fewest GPUs first", _FIXED_PROFILER)
WITHOUT_SPACE_AWARE = Ablation(
    "w/o S.A.", "profiled in the order of submission", {**_FIXED_PROFILER, "profiling_order": "submission"}
)
PROFILERS = (WITHOUT_SPACE_AWARE, WITH_SPACE_AWARE)
_ALL = (*VARIANTS, *OUR_VARIANTS, *PROFILERS)


def missing_settings() -> str:
    """Say which settings Lucid lacks for these ablations; "" when it has all.

    An ablation must never silently be Lucid itself.
    """
    known = {field.name for field in fields(LucidSettings)}
    wanted = {name for ablation in _ALL for name in ablation.settings}
    missing = sorted(wanted - known)
    if not missing:
        return ""
    return f"Lucid has no setting {', '.join(missing)}; it has {', '.join(sorted(known))}"


def run_of(study: Study, ablation: Ablation) -> ReproductionRun:
    """Name Lucid's run as a variant."""
    return study.run(LUCID, ablation.settings, forecast=ablation.forecast)


def why_not(study: Study) -> str:
    """Say why nothing can be switched off on this trace; "" when it can."""
    return missing_settings() if LUCID in study.policies else "lucid is not among the policies"


def ablation_runs(study: Study) -> list[ReproductionRun]:
    """Lucid, its variants, QSSF, and the two profilers."""
    if why_not(study):
        return []
    runs = [run_of(study, ablation) for ablation in _ALL]
    return [study.run(LUCID), study.run("qssf"), *runs]


def ablation_sections(study: Study, outcomes: Mapping[ReproductionRun, Outcome]) -> list[Section]:
    """Set the variants side by side."""
    reason = why_not(study)
    if reason:
        return [not_measured("fig11_ablations", TITLE, reason)]
    rows = [_row(name_of("qssf"), "the non-intrusive rival", outcomes[study.run("qssf")])]
    rows += [
        _row(ablation.name, ablation.meaning, outcomes[run_of(study, ablation)]) for ablation in VARIANTS
    ]
    rows.append(_row("Lucid", "everything on", outcomes[study.run(LUCID)]))
    tidy = pd.DataFrame(rows)
    rows_of_ours = [
        _row(ablation.name, ablation.meaning, outcomes[run_of(study, ablation)]) for ablation in OUR_VARIANTS
    ]
    profilers = [
        _row(ablation.name, ablation.meaning, outcomes[run_of(study, ablation)]) for ablation in PROFILERS
    ]
    profiling = pd.DataFrame(profilers)
    optimum_s = float(study.trace.jobs["duration_s"].mean())
    shown = pd.DataFrame(
        [
            {
                "variant": row["variant"],
                "what it means": row["meaning"],
                "mean JCT, h": number(row["mean_jct_s"] / 3_600),
                "mean queue, h": number(row["mean_queuing_delay_s"] / 3_600),
                "P99.9 queue, h": number(row["p999_queuing_delay_s"] / 3_600),
                "queue before profiling, s": number(row["profiling_queue_s"], 0),
                "jobs that shared": f"{row['colocated_jobs']:,}",
            }
            for row in (*rows, *rows_of_ours, *profilers)
        ]
    )
    return [
        Section(
            "fig11_ablations",
            TITLE,
            pd.concat(
                [
                    tidy.assign(panel="a"),
                    pd.DataFrame(rows_of_ours).assign(panel="ours"),
                    profiling.assign(panel="b"),
                ],
                ignore_index=True,
            ),
            shown,
            (
                (
                    f"Without any queue the mean JCT would be {number(optimum_s / 3_600)} h (the paper's "
                    '"Optimal").'
                ),
                (
                    "The two rows on space-aware profiling have T_prof 500 s, N_prof 36 and no time-aware "
                    "scaling, as in the paper. The paper prints Figure 11 as bars only; its ratios are "
                    "among the claims above."
                ),
            ),
            plots.ablations(tidy, optimum_s, profiling),
        )
    ]


def _row(variant: str, meaning: str, outcome: Outcome) -> dict[str, Any]:
    if outcome.failed or outcome.activity is None:
        raise BadInputError(f"{variant} could not replay the trace: {outcome.failed}")
    return {
        "variant": variant,
        "meaning": meaning,
        **{
            key: float(outcome.summary[key])
            for key in ("mean_jct_s", "mean_queuing_delay_s", "p999_queuing_delay_s")
        },
        "profiling_queue_s": outcome.activity.profiling_queue_s,
        "colocated_jobs": int(outcome.summary["colocated_jobs"]),
    }
