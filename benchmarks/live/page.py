"""The bench's results as tables in Markdown, a picture and a CSV file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.live.measures import Times, change_pct, measures, pooled, worst_user_against
from benchmarks.live.one_run import RunMode
from benchmarks.live.stream import StreamJob
from foundation.run_manifest import run_manifest

SAID: Mapping[str, str] = {
    RunMode.FIFO: "Slurm's FIFO and backfill",
    RunMode.DAEMON: "Lucid, the published release",
    RunMode.ORACLE: "Lucid, true run times",
}
COLUMNS: Mapping[str, str] = {
    "mean_jct_s": "mean JCT s",
    "median_jct_s": "median",
    "p95_jct_s": "P95",
    "max_jct_s": "max",
    "worst_tenth_jct_s": "worst tenth",
    "mean_queuing_s": "mean queuing s",
    "makespan_s": "makespan s",
    "mean_slowdown": "mean slowdown",
    "worst_users_slowdown": "worst user's",
    "jain_index": "Jain index",
}
AIM_PCT, NEAR_TRUTH_PCT = -25.0, 5.0


@dataclass(frozen=True)
class SeedResult:
    """One stream: its jobs, what was measured by mode, and what the simulator foretold."""

    seed: str
    jobs: Sequence[StreamJob]
    measured: Mapping[str, Times]
    foretold: Mapping[str, Times] = field(default_factory=dict)
    late_s: Mapping[str, Sequence[float]] = field(default_factory=dict)
    commits: frozenset[str] = frozenset()


def figures_of(results: Sequence[SeedResult]) -> pd.DataFrame:
    """Return a row a (seed, mode, source), source being measured or foretold."""
    rows: list[dict[str, Any]] = []
    for result in results:
        for source, found in (("measured", result.measured), ("foretold", result.foretold)):
            for mode, times in found.items():
                row: dict[str, Any] = {"seed": result.seed, "mode": str(mode), "source": source}
                row |= measures(times, result.jobs)
                if RunMode.FIFO in found:
                    user, ratio = worst_user_against(times, found[RunMode.FIFO], result.jobs)
                    row |= {"worst_user": user, "worst_users_jct_to_fifo": ratio}
                rows.append(row)
    return pd.DataFrame(rows)


def tables_of(results: Sequence[SeedResult]) -> dict[str, str]:
    """Return the page's generated parts by the names of their markers."""
    figures = figures_of(results)
    measured = figures[figures["source"] == "measured"]
    return {
        "live-bench-verdict": verdict(measured),
        "live-bench-means": _means(measured),
        "live-bench-seeds": _by_seed(measured),
        "live-bench-foretold": _foretold(figures),
    }


def verdict(measured: pd.DataFrame) -> str:
    """Say for each aim whether it was met, over the means of all seeds."""
    mean = {mode: _pooled(measured, mode) for mode in measured["mode"].unique()}
    if not {RunMode.FIFO, RunMode.DAEMON} <= set(mean):
        return "Not all modes were run."
    ours, fifo = mean[RunMode.DAEMON], mean[RunMode.FIFO]
    against_fifo = change_pct(ours["mean_jct_s"], fifo["mean_jct_s"])
    worst = change_pct(ours["worst_tenth_jct_s"], fifo["worst_tenth_jct_s"])
    lines = [
        _aim(against_fifo <= AIM_PCT, f"mean JCT {against_fifo:+.1f} % against FIFO (aim: -25 % or less)"),
        _aim(worst <= 0, f"worst tenth {worst:+.1f} % against FIFO (aim: no worse)"),
    ]
    if RunMode.ORACLE in mean:
        truth = change_pct(ours["mean_jct_s"], mean[RunMode.ORACLE]["mean_jct_s"])
        lines.insert(
            1,
            _aim(
                truth <= NEAR_TRUTH_PCT, f"mean JCT {truth:+.1f} % against true run times (aim: +5 % or less)"
            ),
        )
        bound = change_pct(mean[RunMode.ORACLE]["mean_jct_s"], fifo["mean_jct_s"])
        lines.append(f"- what there was to gain: with true run times mean JCT is {bound:+.1f} % against FIFO")
    return "\n".join(lines)


def _aim(met: bool, sentence: str) -> str:
    return f"- {'met' if met else 'missed'}: {sentence}"


def _pooled(table: pd.DataFrame, mode: str) -> dict[str, float]:
    here = table[table["mode"] == mode]
    return pooled([{name: float(row[name]) for name in COLUMNS} for _, row in here.iterrows()])


def _means(measured: pd.DataFrame) -> str:
    head = ["", *COLUMNS.values(), "worst user's JCT to FIFO's"]
    rows = []
    for mode, said in SAID.items():
        here = measured[measured["mode"] == mode]
        if len(here):
            worst = here["worst_users_jct_to_fifo"].max() if "worst_users_jct_to_fifo" in here else np.nan
            values = _pooled(measured, mode)
            rows.append([said, *(_number(name, values[name]) for name in COLUMNS), f"{worst:.2f}"])
    return _markdown(head, rows)


def _by_seed(measured: pd.DataFrame) -> str:
    head = ["seed", "jobs", "", *(COLUMNS[name] for name in _SHORT), "mean JCT to FIFO's"]
    rows = []
    for seed in measured["seed"].unique():
        here = measured[measured["seed"] == seed].set_index("mode")
        for mode, said in SAID.items():
            if mode in here.index:
                row = here.loc[mode]
                change = (
                    ""
                    if mode == RunMode.FIFO or RunMode.FIFO not in here.index
                    else (f"{change_pct(row['mean_jct_s'], here.loc[RunMode.FIFO, 'mean_jct_s']):+.1f} %")
                )
                rows.append(
                    [seed, f"{row['jobs']:.0f}", said, *(_number(name, row[name]) for name in _SHORT), change]
                )
    return _markdown(head, rows)


_SHORT = ("mean_jct_s", "median_jct_s", "p95_jct_s", "max_jct_s", "worst_tenth_jct_s", "makespan_s")


def _foretold(figures: pd.DataFrame) -> str:
    head = ["seed", "", "mean JCT s measured", "foretold", "worst tenth measured", "foretold"]
    rows = []
    for (seed, mode), here in figures.groupby(["seed", "mode"], sort=False):
        by_source = here.set_index("source")
        if {"measured", "foretold"} <= set(by_source.index):
            pair = [by_source.loc[source] for source in ("measured", "foretold")]
            cells = [f"{one[name]:.1f}" for name in ("mean_jct_s", "worst_tenth_jct_s") for one in pair]
            rows.append([str(seed), SAID[str(mode)], *cells])
    return _markdown(head, rows)


def _number(name: str, value: float) -> str:
    if name in ("jain_index", "mean_slowdown", "worst_users_slowdown"):
        return f"{value:.2f}"
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def provenance(results: Sequence[SeedResult], seeds: Sequence[str], remarks: Sequence[str]) -> str:
    """Return what the page says of its own making, one item a line."""
    manifest = run_manifest(inputs={}, seeds={}, settings={})
    machine = manifest["environment"]
    late = [value for result in results for values in result.late_s.values() for value in values]
    commits = ", ".join(sorted(set().union(*(result.commits for result in results))))
    made = (
        f"Measured until {manifest['created'][:10]} at {commits} (a commit; +: with changes), on "
        f"{machine['cpus']} cores, {machine['system']}, Python {machine['python']}, by `make bench-live`; "
        f"streams: {', '.join(seeds)}."
    )
    facts = [made, *remarks]
    if late:
        facts.append(f"Jobs were submitted {np.mean(late):.3f} s late on average, {max(late):.2f} s at most.")
    return "\n".join(f"- {fact}" for fact in facts)


def draw(results: Sequence[SeedResult], path: Path) -> None:
    """Draw the mean JCT of each stream and the distribution of all jobs' JCT."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    bars, curve = figure.subplots(1, 2)
    colours = {RunMode.FIFO: "#888888", RunMode.DAEMON: "#1f77b4", RunMode.ORACLE: "#2ca02c"}
    width = 0.8 / len(SAID)
    for position, (mode, said) in enumerate(SAID.items()):
        have = [(at, one.measured[mode].jct_s) for at, one in enumerate(results) if mode in one.measured]
        if not have:
            continue
        at = [place + (position - 1) * width for place, _ in have]
        bars.bar(at, [jct_s.mean() for _, jct_s in have], width, label=said, color=colours[RunMode(mode)])
        everyone = np.sort(np.concatenate([jct_s for _, jct_s in have]))
        share = np.arange(1, len(everyone) + 1) / len(everyone)
        curve.step(np.maximum(everyone, 1.0), share, where="post", label=said, color=colours[RunMode(mode)])
    bars.set_xticks(range(len(results)), [result.seed for result in results])
    bars.set_xlabel("stream")
    bars.set_ylabel("mean job completion time (s)")
    curve.set_xscale("log")
    curve.set_xlabel("job completion time (s)")
    curve.set_ylabel("share of jobs")
    curve.legend(loc="lower right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
