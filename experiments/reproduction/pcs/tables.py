"""The tables of PCS' evaluation, under the paper's numbers."""

from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd

from experiments.reproduction.pcs import drawing, narrative, published
from experiments.reproduction.pcs.costs import PARAMETER_SEEDS, parameter_jobs
from experiments.reproduction.pcs.fronts import Search
from experiments.reproduction.pcs.replays import NAMES, SHOWN_PCT, PcsVariant
from experiments.reproduction.sections import Section
from foundation.markdown import NO_VALUE, number

# Whose configurations the paper's columns have, on the trace that they were found for.
PUBLISHED_CONFIGURATIONS = {"pcs-jct": "fig7-jct", "pcs-bal": "fig7-bal"}
SHOWN_POINTS = 12  # of a front, in a table
Found = dict[str, dict[str, dict[str, Any]]]  # by trace, then by the policy's key


def comparison(found: Found) -> pd.DataFrame:
    """Return Figure 7: trace, policy, jct (relative to AFS-L), error_pct, p99_error_pct, jobs, foretold."""
    return pd.DataFrame(
        {
            "trace": trace,
            "policy": key,
            "jct": told["jct_s"]["mean"] / by_policy["afs"]["jct_s"]["mean"],
            "error_pct": told["error_pct"]["mean"],
            "p99_error_pct": told["error_pct"]["p99"],
            "jobs": told["jobs"],
            "foretold": told["foretold"],
        }
        for trace, by_policy in found.items()
        for key, told in by_policy.items()
    )


def figure_7(compared: pd.DataFrame, variants: Mapping[str, Mapping[str, PcsVariant]]) -> Section:
    """All columns of Figure 7 on every trace."""
    rows = []
    for row in compared.to_dict("records"):
        told = published.FIGURE_7.get(published.trace_of(row["trace"]) or "", {}).get(row["policy"])
        rows.append(
            {
                "trace": row["trace"],
                "policy": NAMES[row["policy"]],
                "configuration": variants[row["trace"]][row["policy"]].source or NO_VALUE,
                "mean JCT / AFS-L": number(row["jct"], 3),
                "published": number(told.jct if told else None, 3),
                "mean Pred_err, %": number(row["error_pct"], 3),
                "published ": number(told.error_pct if told else None, 3),
                "P99 Pred_err, %": number(row["p99_error_pct"], 3),
                "published  ": number(told.p99_error_pct if told else None, 3),
            }
        )
    return Section(
        "fig7_policies",
        "Figure 7: what each policy costs and predicts",
        compared,
        pd.DataFrame(rows),
        (*_differences(compared), "Crosses are the published figures; black bars mark the P99."),
        drawing.bars(compared, published.FIGURE_7),
    )


def _differences(compared: pd.DataFrame) -> list[str]:
    """Say how far the columns lie apart that can be compared."""
    said = []
    for trace, rows in compared.groupby("trace", sort=False):
        known = published.FIGURE_7.get(published.trace_of(str(trace)) or "")
        if known is None:
            continue
        same = ["afs", "srsf", "themis", "elastic_fifo"]
        if published.trace_of(str(trace)) == published.CONFIGURED_FOR:
            same += PUBLISHED_CONFIGURATIONS
        parts = []
        for measure, label in (
            ("jct", "mean JCT"),
            ("error_pct", "mean Pred_err"),
            ("p99_error_pct", "P99 Pred_err"),
        ):
            apart = []
            for row in rows.to_dict("records"):
                if row["policy"] not in same:
                    continue
                ours, theirs = row[measure], getattr(known[row["policy"]], measure)
                if f"{ours:.3f}" != f"{theirs:.3f}":
                    share = f" ({100 * (ours / theirs - 1):+.1f} %)" if theirs else ""
                    apart.append(f"{NAMES[row['policy']]}{share}")
            parts.append(f"{label}: {', '.join(apart)}" if apart else f"{label}: none")
        said.append(
            f"Figures of {trace} that differ from the published in three decimals. {'; '.join(parts)}."
        )
    return said


def figure_3(points: pd.DataFrame) -> Section:
    """The found fronts on fresh samples."""
    front = points[points["kind"] == "front"]
    rows = [
        {
            "trace": row["trace"],
            "mean JCT / AFS-L": number(row["jct"], 3),
            "mean Pred_err, %": number(row["mean_pct"], 3),
            "P99 Pred_err, %": number(row["p99_pct"], 3),
        }
        for _, points_of in front.groupby("trace", sort=False)
        for row in _some(points_of.sort_values("jct").to_dict("records"))
    ]
    return Section(
        "fig3_fronts",
        "Figure 3: the Pareto fronts",
        points,
        pd.DataFrame(rows),
        (f"At most {SHOWN_POINTS} points of a front are listed. {narrative.FIGURE_3}",),
        drawing.fronts(points),
    )


def _some(rows: list[dict[Hashable, Any]]) -> list[dict[Hashable, Any]]:
    """Return some of the rows, evenly, the first and the last among them."""
    if len(rows) <= SHOWN_POINTS:
        return rows
    return [rows[round(i * (len(rows) - 1) / (SHOWN_POINTS - 1))] for i in range(SHOWN_POINTS)]


def figure_5(trace: str, found: Mapping[str, Mapping[str, Any]]) -> Section:
    """Percentiles of PCS-JCT, AFS-L and Tiresias."""
    shown = ("pcs-jct", "afs", "srsf")
    columns = ["mean", *(f"p{percent:g}" for percent in SHOWN_PCT)]
    tidy = pd.DataFrame(
        {"policy": key, "metric": metric, **{name: found[key][metric][name] for name in columns}}
        for metric in ("jct_s", "error_pct")
        for key in shown
    )
    rows = [
        {
            "policy": NAMES[row["policy"]],
            "of": "JCT / AFS-L's" if row["metric"] == "jct_s" else "Pred_err, %",
            **{
                name.replace("p", "P"): number(
                    row[name] / found["afs"]["jct_s"][name] if row["metric"] == "jct_s" else row[name]
                )
                for name in columns
            },
        }
        for row in tidy.to_dict("records")
    ]
    return Section(
        "fig5_percentiles",
        f"Figure 5: completion times and errors by percentile ({trace})",
        tidy,
        pd.DataFrame(rows),
        (narrative.FIGURE_5,),
        drawing.percentiles(found, shown),
    )


def fairness(found: Found) -> Section:
    """Unfairness of all policies, on every trace."""
    tidy = pd.DataFrame(
        {
            "trace": trace,
            "policy": key,
            **{name: told["unfairness"][name] for name in ("mean", "p50", "p90", "p99", "unfair_pct")},
        }
        for trace, by_policy in found.items()
        for key, told in by_policy.items()
    )
    rows = [
        {
            "trace": row["trace"],
            "policy": NAMES[row["policy"]],
            "mean unfairness": number(row["mean"], 3),
            "P90": number(row["p90"], 3),
            "P99": number(row["p99"], 3),
            "jobs treated unfairly, %": number(row["unfair_pct"], 1),
        }
        for row in tidy.to_dict("records")
    ]
    return Section(
        "unfairness",
        "What it does to fairness",
        tidy,
        pd.DataFrame(rows),
        (narrative.UNFAIRNESS,),
    )


def figure_9(
    times: pd.DataFrame, spaces: pd.DataFrame, searches: Mapping[str, Search], jobs_per_sample: int
) -> Section:
    """The cost of simulations and of searches."""
    rows = [
        {
            "what": f"a simulation of {row['jobs']:,} jobs on {row['gpus']:,} GPUs, CPU s",
            "ours": number(row["cpu_s"]),
            "published": "minutes",
        }
        for row in times.to_dict("records")
    ]
    cores = f"{published.FRONT_SIMULATIONS:,} simulations on {published.FRONT_CORES} cores"
    rows += [
        {
            "what": f"the front of {trace}: {search.front.evaluations:,} configurations, "
            f"{search.front.simulations:,} simulations, CPU minutes",
            "ours": number(None if search.cpu_s is None else search.cpu_s / 60, 1),
            "published": f"about {published.FRONT_MINUTES} minutes of wall time ({cores})",
        }
        for trace, search in searches.items()
    ]
    drawn = int(spaces["evaluations"].max())
    last = spaces[spaces["evaluations"] == spaces["evaluations"].max()]
    volumes = last.groupby("space", sort=False)["hypervolume"].mean()
    rows += [
        {
            "what": f"hypervolume after {drawn} random configurations: {space}",
            "ours": number(volume, 3),
            "published": NO_VALUE,
        }
        for space, volume in volumes.items()
    ]
    return Section(
        "fig9_costs",
        "Figure 9: what finding a configuration costs",
        times,
        pd.DataFrame(rows),
        (
            narrative.figure_9(drawn, parameter_jobs(jobs_per_sample), len(PARAMETER_SEEDS)),
            narrative.parameterisation(volumes["four numbers"], volumes["outright"]),
        ),
        drawing.costs(times, spaces),
    )


def cost_of_replays(found: Found) -> Section:
    """How quick the replays are, predictions included."""
    rows = [
        {
            "trace": trace,
            "policy": NAMES[key],
            "jobs": f"{told['jobs']:,}",
            "foretold": f"{told['foretold']:,}",
            "CPU s": number(told["cpu_s"]),
            "jobs per CPU s": number(told["jobs"] / told["cpu_s"] if told["cpu_s"] else None, 0),
        }
        for trace, by_policy in found.items()
        for key, told in by_policy.items()
    ]
    return Section(
        "replays",
        "What a replay with predictions costs",
        pd.DataFrame(rows),
        pd.DataFrame(rows),
        ("CPU time in one process of pure Python, on the machine named above.",),
    )
