"""What each of Lucid's ideas is worth: the policy with one of them switched off at a time.

`python -m experiments.policies.lucid_ideas DATA` prints the table; DATA is the folder that
LUCID_REFERENCE_DATA names.
With `--write docs/policies.md` it goes between that page's markers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.artifact_rules.published_packing import read_published_pairs
from experiments.pages import run_study
from experiments.policies.agreement import load_slice
from experiments.policies.policy_comparison import SLICES
from foundation.markdown import markdown_table
from pipeline.replay.log_scenario import PAIRS_FILE
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario
from simulator.workload.colocation import MeasuredPairs
from simulator.workload.forecast import naive_forecast

# Figure 11 b compares orders of profiling at this T_prof, without time-aware scaling.
LONG_PROFILING: Mapping[str, Any] = {
    "profiling_limit_s": 500.0,
    "profiling_in_place": False,
    "profiling_scales": False,
    "borrowed_nodes_max": 0,
}


@dataclass(frozen=True)
class LucidIdea:
    """Lucid with other settings, or told of the throughput."""

    label: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    forecast: bool = False


IDEAS = (
    LucidIdea("as it is"),
    LucidIdea("dynamic strategy, by the naive forecast", forecast=True),
    LucidIdea("no profiling in place", {"profiling_in_place": False}),
    LucidIdea("N_prof and T_prof do not shrink", {"profiling_scales": False}),
    LucidIdea("no borrowed nodes", {"borrowed_nodes_max": 0}),
    LucidIdea("T_prof 100 s", {"profiling_limit_s": 100.0}),
    LucidIdea("T_prof 600 s", {"profiling_limit_s": 600.0}),
    LucidIdea("no profiler: only what ran for T_prof is measured", {"profiling_nodes": 0}),
    LucidIdea("T_prof 500 s, no time-aware scaling", LONG_PROFILING),
    LucidIdea("the same without space-aware order", {**LONG_PROFILING, "profiling_order": "submission"}),
    LucidIdea("partners by sharing score", {"partners_by": "score"}),
    LucidIdea("naive packing (without binder)", {"packing": "naive"}),
    LucidIdea("Apathetic (G_SS 1)", {"sharing": "apathetic"}),
    LucidIdea("without sharing", {"sharing": "none"}),
    LucidIdea("without estimator, fewest GPUs first", {"order": "gpus"}),
    LucidIdea("without estimator, by submission", {"order": "submission"}),
)


def ideas_table(data: Path, ideas: tuple[LucidIdea, ...] = IDEAS) -> str:
    """Return the Markdown table: one row an idea, mean JCT, mean and P99.9 queuing (s) of each slice."""
    packing = data / "data" / "packing"
    folder = data / "reference" / "lucid"
    pairs = MeasuredPairs(read_published_pairs(packing / PAIRS_FILE))
    columns: dict[str, list[str]] = {"Lucid": [idea.label for idea in ideas]}
    for name, (jobs, nodes) in SLICES.items():
        part = load_slice(folder / jobs, nodes if isinstance(nodes, int) else folder / nodes, packing)
        forecast = naive_forecast(part.workload)
        column = columns[f"{name}: mean JCT / mean queuing / P99.9 queuing s"] = []
        for idea in ideas:
            found = simulate(
                Scenario(
                    part.workload,
                    part.cluster,
                    colocation=pairs,
                    forecast=forecast if idea.forecast else None,
                ),
                "lucid",
                settings=idea.settings,
            ).summary
            column.append(
                f"{found['mean_jct_s']:,.0f} / {found['mean_queuing_delay_s']:,.0f} / "
                f"{found['p999_queuing_delay_s']:,.0f}"
            )
    return markdown_table(list(columns), zip(*columns.values(), strict=True), align_numbers=False)


def tables(data: Path) -> dict[str, str]:
    """Return the table by the name of its markers."""
    return {"lucid ideas": ideas_table(data)}


if __name__ == "__main__":
    run_study("experiments.policies.lucid_ideas", __doc__, tables)
