"""What each idea of Clarity buys: the policy with one of them switched off, beside the others.

`python -m experiments.policies.clarity_ideas DATA` prints two tables; DATA is the folder that
LUCID_REFERENCE_DATA names.
With `--write docs/policies.md` they go between that page's markers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from experiments.artifact_rules.published_packing import read_published_pairs
from experiments.pages import run_study
from experiments.policies.philly_slices import PhillySlices, SliceSpec
from foundation.markdown import markdown_table
from pipeline.replay.log_scenario import PAIRS_FILE
from simulator.policies.clarity import Clarity, ClaritySettings
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario
from simulator.workload.colocation import ColocationModel, MeasuredPairs
from simulator.workload.workload import Workload

# The settings were chosen on the reference slice and these,
TUNED_ON = (
    SliceSpec("2017-10-08", 7, 44, 1),
    SliceSpec("2017-10-15", 7, 60, 2),
    SliceSpec("2017-11-06", 7, 40, 3),
    SliceSpec("2017-10-22", 7, 64, 4),
)
# and checked on these, of which the last three are light.
CHECKED_ON = (
    SliceSpec("2017-09-28", 7, 52, 11),
    SliceSpec("2017-10-12", 7, 48, 12),
    SliceSpec("2017-10-29", 7, 40, 13),
    SliceSpec("2017-10-19", 7, 56, 14),
    SliceSpec("2017-11-27", 7, 40, 15),
    SliceSpec("2017-10-04", 7, 52, 16),
    SliceSpec("2017-10-10", 14, 60, 17),
    SliceSpec("2017-12-04", 7, 64, 21),
    SliceSpec("2017-11-13", 7, 64, 22),
    SliceSpec("2017-12-11", 12, 40, 23),
)
RIVALS = ("fifo", "qssf", "tiresias", "srtf", "lucid", "clarity")


@dataclass(frozen=True)
class ClarityIdea:
    """A variant of Clarity. `table`: it predicts pairs from the measured table; `exact`: it is an oracle."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    table: bool = False
    exact: bool = False


IDEAS = (
    ClarityIdea("Clarity as it is"),
    ClarityIdea("no job shares (no pair fits the memory)", {"gpu_memory_mib": 0.0}),
    ClarityIdea("no sharing while GPUs are idle", {"price_idle": 0.0}),
    ClarityIdea("sharing on idle GPUs at five times the price", {"price_idle": 0.1}),
    ClarityIdea("a shortage is forgotten after a day", {"calm_s": 86_400.0}),
    ClarityIdea("any pair shares when GPUs are short", {"price_short": 2.0}),
    ClarityIdea("the partner with which least is lost, even if another job needs it", {"sought_after": 0.0}),
    ClarityIdea("sharing is never put off", {"patience": 0.0}),
    ClarityIdea("what was measured of a program is not used for its later runs", {"templates": False}),
    ClarityIdea("speeds of pairs are not learned", {"learns_speeds": False}),
    ClarityIdea("pairs predicted from the measured table", {}, table=True),
    ClarityIdea("no nodes held for gangs", {"holds": 0}),
    ClarityIdea("64 waiting jobs of a size are looked at", {"lookahead": 64}),
    ClarityIdea("with preemption: running jobs are moved together", {"preemption": True}),
    ClarityIdea("the same, and no sharing while GPUs are idle", {"preemption": True, "price_idle": 0.0}),
    ClarityIdea("exact estimates (an oracle)", {}, exact=True),
)


@dataclass(frozen=True)
class IdeaMeans:
    """What is shown of a replay; times in s."""

    mean_jct_s: float
    mean_queuing_s: float
    p999_queuing_s: float
    packed: int
    jobs: int
    run_time_s: float  # mean


class IdeaReplays:
    """The slices, replayed with the measured speeds of pairs."""

    def __init__(self, data: Path) -> None:
        slices = PhillySlices(data)
        self.pairs = MeasuredPairs(read_published_pairs(data / "data" / "packing" / PAIRS_FILE))
        self.reference = slices.reference()
        self.tuned = [slices.cut(spec) for spec in TUNED_ON]
        self.checked = [slices.cut(spec) for spec in CHECKED_ON]

    def run(self, part: Scenario, idea: ClarityIdea) -> IdeaMeans:
        """Replay a slice under a variant of Clarity."""
        predicted: ColocationModel | None = self.pairs if idea.table else None
        policy = Clarity(ClaritySettings(**{"pair_speeds": predicted, **idea.settings}))
        return self._replay(_exact(part.workload) if idea.exact else part.workload, part, policy)

    def rival(self, part: Scenario, name: str) -> IdeaMeans:
        """Replay a slice under a policy by name, with its default settings."""
        return self._replay(part.workload, part, name)

    def _replay(self, workload: Workload, part: Scenario, policy: str | Clarity) -> IdeaMeans:
        result = simulate(Scenario(workload, part.cluster, colocation=self.pairs), policy)
        return IdeaMeans(
            result.summary["mean_jct_s"],
            result.summary["mean_queuing_delay_s"],
            result.summary["p999_queuing_delay_s"],
            result.summary["colocated_jobs"],
            len(workload),
            float(np.mean([job.duration_s for job in workload.jobs])),
        )


def _exact(workload: Workload) -> Workload:
    return workload.with_estimates(np.array([job.duration_s for job in workload.jobs]))


def ideas_table(study: IdeaReplays) -> str:
    """One row a variant: the reference slice, and the mean JCT elsewhere relative to Clarity as it is."""
    rows = []
    base: dict[str, list[float]] = {}
    for idea in IDEAS:
        found = study.run(study.reference, idea)
        relative = []
        for name, parts in (("tuned", study.tuned), ("checked", study.checked)):
            means = [study.run(part, idea).mean_jct_s for part in parts]
            ours = base.setdefault(name, means)
            change = float(np.exp(np.mean(np.log(np.divide(means, ours)))) - 1.0)
            relative.append("" if ours is means else f"{100 * change:+.1f} %")
        rows.append((idea.name, *_shown(found), *relative))
    columns = (
        "variant",
        *COLUMNS,
        f"JCT on the {len(TUNED_ON)} other slices tuned on",
        f"JCT on the {len(CHECKED_ON)} slices not tuned on",
    )
    return markdown_table(columns, rows, align_numbers=False)


COLUMNS = ("mean JCT s", "mean queuing s", "P99.9 queuing s", "packed jobs")


def _shown(found: IdeaMeans) -> tuple[str, ...]:
    return (
        f"{found.mean_jct_s:,.0f}",
        f"{found.mean_queuing_s:,.0f}",
        f"{found.p999_queuing_s:,.0f}",
        f"{found.packed:,}",
    )


def slices_table(study: IdeaReplays) -> str:
    """One row a slice: mean JCT (s) of each policy."""
    named = [("week1vc48", study.reference)]
    named += [(str(spec), part) for spec, part in zip(TUNED_ON, study.tuned, strict=True)]
    named += [(str(spec), part) for spec, part in zip(CHECKED_ON, study.checked, strict=True)]
    rows = []
    for name, part in named:
        found = {rival: study.rival(part, rival) for rival in RIVALS}
        ours = found["clarity"]
        means = [f"{found[rival].mean_jct_s:,.0f}" for rival in RIVALS]
        rows.append(
            (name, f"{ours.jobs:,}", f"{ours.run_time_s:,.0f}", *means, f"{ours.p999_queuing_s:,.0f}")
        )
    columns = ("slice", "jobs", "mean run time", *RIVALS, "P99.9 queuing, clarity")
    return markdown_table(columns, rows, align_numbers=False)


def tables(data: Path) -> dict[str, str]:
    """Return the tables by the names of their markers."""
    study = IdeaReplays(data)
    return {"clarity-ideas": ideas_table(study), "clarity-slices": slices_table(study)}


if __name__ == "__main__":
    run_study("experiments.policies.clarity_ideas", __doc__, tables)
