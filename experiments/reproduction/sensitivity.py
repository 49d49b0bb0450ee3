"""Section 4.5: Table 6 (T_prof), binder thresholds, Figure 12 (workload mixes)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from experiments.reproduction import plots, published
from experiments.reproduction.ablations import ALL_PROFILED
from experiments.reproduction.runs import Outcome, ReproductionRun
from experiments.reproduction.sections import HOUR_S, Section, name_of, not_measured
from experiments.reproduction.sharing import HEAVY_GPU_UTIL_PCT, MIXES, is_heavy
from experiments.reproduction.study import CLARITY, LUCID, THRESHOLDS, Study, figure_of, thresholds_name
from foundation.markdown import NO_VALUE, number

MIX_RIVALS = ("qssf", "tiresias")
FREE_PREEMPTION = {"preemption_s": 0.0}  # Tiresias without its overhead, for section 4.8
_STEPS_PCT = np.arange(0.0, 101.0, 2.0)


def limit_run(study: Study, limit_s: float) -> ReproductionRun:
    """Lucid with another T_prof, every small job profiled first as in the paper."""
    return study.run(LUCID, {**ALL_PROFILED, "profiling_limit_s": float(limit_s)})


def thresholds_run(study: Study, medium_from: float, tiny_above: float) -> ReproductionRun:
    """Lucid with sharing scores by other thresholds."""
    return study.run(LUCID, profiles=thresholds_name(medium_from, tiny_above))


def sensitivity_runs(study: Study) -> list[ReproductionRun]:
    """Lucid under each T_prof, each pair of thresholds and each mix; its rivals under each mix."""
    if LUCID not in study.policies:
        return []
    runs = [limit_run(study, limit_s) for limit_s in published.TABLE_6]
    runs += [thresholds_run(study, *thresholds) for thresholds in THRESHOLDS]
    if "tiresias" in study.policies:
        runs.append(study.run("tiresias", FREE_PREEMPTION))
    runs += [study.run(policy, profiles=mix) for mix in MIXES for policy in mix_policies(study)]
    return runs


def mix_policies(study: Study) -> list[str]:
    """Name the policies of Figure 12: Lucid, and those of its rivals and our own that are asked for."""
    return [*(policy for policy in (*MIX_RIVALS, CLARITY) if policy in study.policies), LUCID]


def sensitivity_sections(study: Study, outcomes: Mapping[ReproductionRun, Outcome]) -> list[Section]:
    """Make the three sections."""
    titles = (
        ("table6_profiling_limit", "Table 6: the profiling time limit T_prof"),
        ("thresholds", "Binder thresholds (section 4.5)"),
        ("fig12_workload_mixes", "Figure 12: workload mixes"),
    )
    if LUCID not in study.policies:
        return [not_measured(key, title, "lucid is not among the policies") for key, title in titles]
    makers = (table_6, thresholds, figure_12)
    return [maker(study, outcomes, key, title) for maker, (key, title) in zip(makers, titles, strict=True)]


def table_6(study: Study, outcomes: Mapping[ReproductionRun, Outcome], key: str, title: str) -> Section:
    """Finish rate, the profiler's queue and JCT under each T_prof."""
    rows, shown = [], []
    for limit_s, paper in published.TABLE_6.items():
        outcome = outcomes[limit_run(study, limit_s)]
        jobs = figure_of(outcome, "jobs")
        ended = figure_of(outcome, "ended_in_profiling")
        finish_pct = None if not jobs or ended is None else 100 * ended / jobs
        queue_s = None if outcome.activity is None else outcome.activity.profiling_queue_s
        jct_s = figure_of(outcome, "mean_jct_s")
        for measure, ours, theirs in (
            ("finish_rate_pct", finish_pct, paper.finish_rate_pct),
            ("profiling_queue_s", queue_s, paper.profiling_queue_s),
            ("mean_jct_s", jct_s, paper.mean_jct_s),
        ):
            rows.append(
                {
                    "profiling_limit_s": limit_s,
                    "measure": measure,
                    "ours": ours,
                    "published": theirs,
                    "published_trace": "venus",
                }
            )
        shown.append(
            {
                "T_prof, s": f"{limit_s}",
                "end in profiling, %": number(finish_pct),
                "(paper)": number(paper.finish_rate_pct),
                "queue before profiling, s": number(queue_s, 0),
                "(paper) ": number(paper.profiling_queue_s, 0),
                "mean JCT, s": number(jct_s, 0),
                "(paper)  ": number(paper.mean_jct_s, 0),
            }
        )
    return Section(
        key,
        title,
        pd.DataFrame(rows),
        pd.DataFrame(shown),
        (
            (
                "Share of all jobs that end while they are profiled; every small job is profiled first, as "
                "in the paper (our default measures jobs that find idle GPUs where they run). Time-aware "
                "scaling is on: in a burst T_prof shrinks for a while, whatever its setting. The paper "
                "measures Venus."
            ),
        ),
    )


def thresholds(study: Study, outcomes: Mapping[ReproductionRun, Outcome], key: str, title: str) -> Section:
    """JCT under each pair of thresholds."""
    rows: list[dict[str, Any]] = []
    for medium_from, tiny_above in THRESHOLDS:
        outcome = outcomes[thresholds_run(study, medium_from, tiny_above)]
        rows.append(
            {
                "medium_from": medium_from,
                "tiny_above": tiny_above,
                "mean_jct_s": figure_of(outcome, "mean_jct_s"),
                "mean_queuing_delay_s": figure_of(outcome, "mean_queuing_delay_s"),
                "colocated_jobs": figure_of(outcome, "colocated_jobs"),
            }
        )
    tidy = pd.DataFrame(rows)
    shown = pd.DataFrame(
        [
            {
                "Medium from": f"{row['medium_from']:.2f}",
                "Tiny above": f"{row['tiny_above']:.2f}",
                "mean JCT, h": number(_in_hours(row["mean_jct_s"])),
                "mean queue, h": number(_in_hours(row["mean_queuing_delay_s"])),
                "jobs that shared": number(row["colocated_jobs"], 0),
            }
            for row in rows
        ]
    )
    found = tidy["mean_jct_s"].dropna()
    spread = 100 * (found.max() - found.min()) / found.min() if len(found) else float("nan")
    return Section(
        key,
        title,
        tidy,
        shown,
        (f"Mean JCT differs by {number(float(spread))} % at most; the paper, on Venus: under 3.6 %.",),
    )


def figure_12(study: Study, outcomes: Mapping[ReproductionRun, Outcome], key: str, title: str) -> Section:
    """Queuing under light, medium and heavy workloads."""
    rows, shown = [], []
    for mix in MIXES:
        jobs = [profile for profile in study.profiles_of(mix) if profile is not None]
        line = {"mix": mix, "heavy jobs, %": f"{100 * sum(map(is_heavy, jobs)) / len(jobs):.0f}"}
        waits: dict[str, float | None] = {}
        for policy in mix_policies(study):
            outcome = outcomes[study.run(policy, profiles=mix)]
            waits[policy] = figure_of(outcome, "mean_queuing_delay_s")
            rows.append(
                {
                    "mix": mix,
                    "policy": policy,
                    "mean_queuing_delay_s": waits[policy],
                    "mean_jct_s": figure_of(outcome, "mean_jct_s"),
                }
            )
            line[f"{name_of(policy)}: queue, h"] = number(_in_hours(waits[policy]))
            line[f"{name_of(policy)}: JCT, h"] = number(_in_hours(figure_of(outcome, "mean_jct_s")))
        lucid, tiresias = waits[LUCID], waits.get("tiresias")
        line["queue cut against Tiresias"] = (
            NO_VALUE if not lucid or tiresias is None else f"{number(tiresias / lucid)}×"
        )
        shown.append(line)
    tidy = pd.DataFrame(rows)
    return Section(
        key,
        title,
        tidy,
        pd.DataFrame(shown),
        (
            (
                f"Types are drawn (seed {study.seed}): heavy ones keep a GPU busy for more than "
                f"{HEAVY_GPU_UTIL_PCT:g} % of the time, and jobs of much GPU time are more often heavy; a "
                "user's jobs of one family of names run the same. L aims at the 16 % that the paper reads "
                "off an Alibaba cluster; it prints its mixes as curves only, so M and H "
                f"({100 * MIXES['M']:.0f} and {100 * MIXES['H']:.0f} %) are ours. It reports 1.8 to 4.2 "
                "times less queuing than under Tiresias."
            ),
        ),
        plots.workload_mixes(mix_utilisations(study), tidy),
    )


def mix_utilisations(study: Study) -> pd.DataFrame:
    """The distribution of GPU utilisation over the jobs of each mix: mix, jobs_pct, gpu_util_pct."""
    rows = []
    for mix in MIXES:
        found = [profile.gpu_util_pct for profile in study.profiles_of(mix) if profile is not None]
        for percent, value in zip(_STEPS_PCT, np.percentile(found, _STEPS_PCT), strict=True):
            rows.append({"mix": mix, "jobs_pct": float(percent), "gpu_util_pct": float(value)})
    return pd.DataFrame(rows)


def _in_hours(seconds: float | None) -> float | None:
    return None if seconds is None else seconds / HOUR_S
