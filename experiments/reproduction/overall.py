"""End-to-end evaluation (Lucid, section 4.3): Tables 2, 4 and 5, Figures 8 and 9, utilisation, short jobs."""

from collections.abc import Mapping

import pandas as pd

from experiments.reproduction import plots, published
from experiments.reproduction.gains import gains
from experiments.reproduction.runs import QUANTILES, Outcome, ReproductionRun
from experiments.reproduction.sections import HOUR_S, Section, name_of
from experiments.reproduction.study import Study, figure_of
from foundation.markdown import NO_VALUE, number

SHOWN_VIRTUAL_CLUSTERS = 8  # of Figure 9: those in which jobs wait longest
_MEASURES: tuple[tuple[str, str, Mapping[str, Mapping[str, float]]], ...] = (
    ("mean_jct_s", "mean JCT, h", published.TABLE_4_JCT_H),
    ("mean_queuing_delay_s", "mean queue, h", published.TABLE_4_QUEUE_H),
    ("p999_queuing_delay_s", "P99.9 queue, h", published.TABLE_4_P999_QUEUE_H),
)


def overall_runs(study: Study) -> list[ReproductionRun]:
    """Every policy on the trace."""
    return [study.run(policy) for policy in study.policies]


def overall_sections(study: Study, outcomes: Mapping[ReproductionRun, Outcome]) -> list[Section]:
    """Make the sections that need nothing but every policy's run."""
    by_policy = {policy: outcomes[study.run(policy)] for policy in study.policies}
    return [
        table_2(study),
        table_4(study, by_policy),
        figure_8(by_policy),
        figure_9(by_policy),
        table_5(study, by_policy),
        *gains(by_policy),
    ]


def table_2(study: Study) -> Section:
    """Set our trace beside the paper's."""
    facts = published.TABLE_2[study.trace.like]
    jobs, cluster = study.trace.jobs, study.trace.cluster
    span_s = (jobs["submit_time"].max() - jobs["submit_time"].min()).total_seconds()
    asked = float((jobs["gpus"] * jobs["duration_s"]).sum())
    load = asked / (cluster.total_gpus * span_s) if span_s else float("nan")
    rows: list[tuple[str, float, float | None]] = [
        ("GPUs", cluster.total_gpus, facts.gpus),
        ("virtual clusters", len(cluster.virtual_clusters), facts.virtual_clusters),
        ("jobs", len(jobs), facts.jobs),
        ("mean duration, s", float(jobs["duration_s"].mean()), facts.mean_duration_s),
        ("median duration, s", float(jobs["duration_s"].median()), None),
        ("mean GPUs of a job", float(jobs["gpus"].mean()), None),
        ("days of submissions", span_s / 86_400, None),
        ("GPU time asked for / GPU time there is", load, None),
    ]
    tidy = pd.DataFrame(rows, columns=["measure", "ours", "published"])
    shown = pd.DataFrame(
        {
            "": tidy["measure"],
            "this trace": [_whole(value) for value in tidy["ours"]],
            f"paper's {study.trace.like.capitalize()}": [_whole(value) for value in tidy["published"]],
        }
    )
    return Section("table2_trace", "Table 2: the trace", tidy, shown)


def table_4(study: Study, by_policy: Mapping[str, Outcome]) -> Section:
    """Average JCT, average queuing delay and its 99.9th percentile by policy."""
    like = study.trace.like
    rows, shown = [], []
    notes = [
        f"{name_of(policy)} could not replay this trace: {outcome.failed}"
        for policy, outcome in by_policy.items()
        if outcome.failed
    ]
    for policy, outcome in by_policy.items():
        line = {"policy": name_of(policy)}
        for key, words, paper in _MEASURES:
            ours, theirs = figure_of(outcome, key), paper[like].get(policy)
            rows.append(
                {
                    "policy": policy,
                    "measure": key,
                    "ours_s": ours,
                    "published_s": None if theirs is None else theirs * HOUR_S,
                    "published_trace": like,
                }
            )
            line[words] = number(None if ours is None else ours / HOUR_S)
            line[f"{words} (paper)"] = number(theirs)
        preempted = figure_of(outcome, "preemptions")
        line["preemptions"] = NO_VALUE if preempted is None else f"{preempted:,.0f}"
        shown.append(line)
    return Section(
        "table4_overall",
        f"Table 4: every policy (beside the paper's {like.capitalize()})",
        pd.DataFrame(rows),
        pd.DataFrame(shown),
        tuple(notes),
    )


def figure_8(by_policy: Mapping[str, Outcome]) -> Section:
    """The distribution of JCT."""
    rows = [
        {"policy": policy, "jobs_pct": percent, "jct_s": jct_s}
        for policy, outcome in by_policy.items()
        for percent, jct_s in zip(QUANTILES, outcome.jct_s, strict=False)
    ]
    tidy = pd.DataFrame(rows, columns=["policy", "jobs_pct", "jct_s"])
    shown = pd.DataFrame(
        [
            {
                "policy": name_of(policy),
                **{
                    f"{percent} % within, s": number(float(outcome.jct_s[QUANTILES.index(percent)]), 0)
                    for percent in (25.0, 50.0, 75.0, 90.0, 99.0)
                },
            }
            for policy, outcome in by_policy.items()
            if len(outcome.jct_s)
        ]
    ).rename(columns=lambda column: str(column).replace(".0 %", " %"))
    return Section(
        "fig8_jct_cdf",
        "Figure 8: JCT of all jobs",
        tidy,
        shown,
        ("The paper prints Figure 8 as curves only: there are no numbers to set beside ours.",),
        plots.jct_distribution(tidy),
    )


def figure_9(by_policy: Mapping[str, Outcome]) -> Section:
    """The average queuing delay of each virtual cluster."""
    frames = [
        outcome.by_vc.assign(policy=policy) for policy, outcome in by_policy.items() if not outcome.failed
    ]
    tidy = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
    shown_clusters = longest_queues(tidy)
    shown = []
    for policy, outcome in by_policy.items():
        if outcome.failed:
            continue
        found = outcome.by_vc.set_index("virtual_cluster")["mean_queuing_delay_s"]
        line = {"mean queue, h": name_of(policy)}
        line |= {name: number(float(found[name]) / HOUR_S) for name in shown_clusters}
        shown.append(line | {"all": number(float(outcome.summary["mean_queuing_delay_s"]) / HOUR_S)})
    return Section(
        "fig9_queuing_by_vc",
        "Figure 9: queuing by virtual cluster",
        tidy,
        pd.DataFrame(shown),
        (
            (
                "The virtual clusters in which jobs wait longest, averaged over policies. Lucid's profiler "
                "takes its nodes out of the largest ones."
            ),
        ),
        plots.queuing_by_virtual_cluster(tidy, shown_clusters),
    )


def longest_queues(tidy: pd.DataFrame) -> list[str]:
    """Name the virtual clusters of Figure 9, the one with the longest mean queue over policies first."""
    if tidy.empty:
        return []
    means = tidy.groupby("virtual_cluster", sort=True)["mean_queuing_delay_s"].mean()
    return [
        str(name) for name in means.sort_values(ascending=False, kind="stable").index[:SHOWN_VIRTUAL_CLUSTERS]
    ]


def table_5(study: Study, by_policy: Mapping[str, Outcome]) -> Section:
    """Large jobs (more than 8 GPUs) against small ones."""
    rows, shown = [], []
    large_jobs = 0
    for policy, outcome in by_policy.items():
        line = {"policy": name_of(policy)}
        for size in ("large", "small"):
            theirs = published.TABLE_5[size].get(policy, (None, None))
            for measure, words, paper in (
                ("mean_jct_s", "JCT, h", theirs[0]),
                ("mean_queuing_delay_s", "queue, h", theirs[1]),
            ):
                ours = figure_of(outcome, f"{size}_jobs_{measure}")
                large_jobs = large_jobs or int(figure_of(outcome, "large_jobs") or 0)
                rows.append(
                    {
                        "policy": policy,
                        "size": size,
                        "measure": measure,
                        "ours_s": ours,
                        "published_s": None if paper is None else paper * HOUR_S,
                        "published_trace": "venus",
                    }
                )
                line[f"{size}: {words}"] = number(None if ours is None else ours / HOUR_S)
                line[f"{size}: {words} (paper)"] = number(paper)
        shown.append(line)
    notes = [f"Large: more than 8 GPUs ({large_jobs:,} of {len(study.trace.jobs):,} jobs here)."]
    if study.trace.like != "venus":
        notes.append("The paper gives this table for Venus only.")
    return Section(
        "table5_sizes",
        "Table 5: large and small jobs",
        pd.DataFrame(rows),
        pd.DataFrame(shown),
        tuple(notes),
    )


def _whole(value: float | None) -> str:
    if value is None or value != value:
        return NO_VALUE
    return f"{value:,.0f}" if abs(value) >= 100 or float(value).is_integer() else f"{value:,.2f}"
