"""What a policy gains beside JCT: utilisation by packing, feedback for short jobs, and HPC's measures."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from experiments.reproduction.runs import Outcome
from experiments.reproduction.sections import Section, name_of
from experiments.reproduction.study import figure_of
from foundation.markdown import number


def gains(by_policy: Mapping[str, Outcome]) -> list[Section]:
    """Make the three sections, a row a policy."""
    return [utilisation(by_policy), debugging(by_policy), further_measures(by_policy)]


def utilisation(by_policy: Mapping[str, Outcome]) -> Section:
    """What packing gains in utilisation (section 4.3), and how long queues get (section 4.4)."""
    rows: list[dict[str, Any]] = []
    for policy, outcome in by_policy.items():
        if outcome.activity is None:
            continue
        seen = outcome.activity
        rows.append(
            {
                "policy": policy,
                "active_gpu_util_pct": seen.gpu_util_pct,
                "active_gpu_mem_mib": seen.gpu_mem_mib,
                "gpus_held_pct": float(outcome.summary["utilisation_pct"]),
                "colocated_jobs": int(outcome.summary["colocated_jobs"]),
                "mean_queue_jobs": seen.mean_queue,
                "max_queue_jobs": seen.max_queue,
            }
        )
    tidy = pd.DataFrame(rows)
    shown = pd.DataFrame(
        [
            {
                "policy": name_of(str(row["policy"])),
                "utilisation of an active GPU, %": number(row["active_gpu_util_pct"], 1),
                "memory in use on it, MiB": number(row["active_gpu_mem_mib"], 0),
                "GPU time held, %": number(row["gpus_held_pct"], 1),
                "jobs that shared": f"{row['colocated_jobs']:,}",
                "mean queue, jobs": number(row["mean_queue_jobs"], 1),
                "longest queue, jobs": f"{row['max_queue_jobs']:,}",
            }
            for row in rows
        ]
    )
    return Section(
        "utilisation",
        "Utilisation gained by packing, and queue lengths (sections 4.3 and 4.4)",
        tidy,
        shown,
        (
            (
                "Averaged over the time that GPUs are held, by the profiles of the jobs on them; two jobs "
                "on a GPU ask for the sum, at most 100 %. The paper samples every minute, reports 9 to 17 % "
                "more utilisation and 7 to 24 % more memory in use than under Tiresias, and queues of 10 to "
                "12 jobs on average, 119 to 340 at most, under Lucid."
            ),
        ),
    )


def debugging(by_policy: Mapping[str, Outcome]) -> Section:
    """How many short jobs wait (section 4.3, "Debugging feedback")."""
    rows: list[dict[str, Any]] = []
    for policy, outcome in by_policy.items():
        if outcome.failed:
            continue
        rows.append(
            {
                "policy": policy,
                "short_jobs_waiting_over_60_s": outcome.short_jobs_waiting,
                **{
                    key: outcome.summary[key]
                    for key in (
                        "short_jobs",
                        "short_jobs_queued",
                        "debugging_jobs",
                        "debugging_jobs_queued_pct",
                        "debugging_jobs_mean_queuing_delay_s",
                    )
                },
            }
        )
    tidy = pd.DataFrame(rows)
    shown = pd.DataFrame(
        [
            {
                "policy": name_of(str(row["policy"])),
                "jobs of at most 60 s": f"{row['short_jobs']:,}",
                "of them queued": f"{row['short_jobs_queued']:,}",
                "queued for over 60 s": f"{row['short_jobs_waiting_over_60_s']:,}",
                "jobs of at most 10 min": f"{row['debugging_jobs']:,}",
                "of them queued, %": number(row["debugging_jobs_queued_pct"], 1),
                "their mean queue, s": number(row["debugging_jobs_mean_queuing_delay_s"], 0),
            }
            for row in rows
        ]
    )
    return Section(
        "debugging_feedback",
        "Debugging feedback: short jobs that queue (section 4.3)",
        tidy,
        shown,
        (
            (
                "A job counts as queued when it waited at all, before its profiling too. Tiresias decides "
                "once a minute, so nearly every job waits for its next round: the stricter column counts "
                "that waited for longer than that. The paper: Lucid has 4.1 to 24.8 times fewer short jobs "
                "queue than Tiresias."
            ),
        ),
    )


def further_measures(by_policy: Mapping[str, Outcome]) -> Section:
    """What HPC sites look at besides (docs/concepts.md): slowdown, starvation, fairness, makespan."""
    columns = (
        ("bounded_slowdown_mean", "bounded slowdown, mean", 2),
        ("bounded_slowdown_p95", "P95", 2),
        ("starved_jobs_pct", "starved jobs, %", 2),
        ("jain_users", "Jain's index over users", 3),
        ("jain_virtual_clusters", "over virtual clusters", 3),
        ("effective_utilisation_pct", "effective utilisation, %", 1),
    )
    rows: list[dict[str, Any]] = []
    shown = []
    for policy, outcome in by_policy.items():
        if outcome.failed:
            continue
        found = {key: figure_of(outcome, key) for key, _, _ in columns}
        makespan_s = figure_of(outcome, "makespan_s")
        rows.append({"policy": policy, **found, "makespan_s": makespan_s})
        shown.append(
            {
                "policy": name_of(policy),
                **{words: number(found[key], digits) for key, words, digits in columns},
                "makespan, days": number(None if makespan_s is None else makespan_s / 86_400),
            }
        )
    return Section(
        "further_measures",
        "Further measures (not in the paper)",
        pd.DataFrame(rows),
        pd.DataFrame(shown),
        (
            (
                "Bounded slowdown: JCT over run time, at least 10 s (Feitelson and Rudolph). Starved: "
                "waited for more than ten times its run time and an hour. Jain's index is 1 when all fare "
                "alike."
            ),
        ),
    )
