"""Policies on many logs: what each gains on average, and what that costs the jobs that wait longest.

Every log is replayed with what `lucid simulate` would take of it: its own estimates, or each user's last run
times (Tsafrir) where it states none. The two weeks of Philly are the reference slices (noisy estimates, job
types drawn from the measured ones, so that jobs may share GPUs); the other logs name no job types, and no
job shares there.

`python -m experiments.policies.many_logs DATA` prints the table; DATA is the folder that
LUCID_REFERENCE_DATA names. `--log NAME` and `--policy NAME[:SETTING=VALUE,...]`, both repeatable, choose;
`--write docs/policies.md` puts the whole table between that page's markers.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cluster_logs.synthetic.generator import synthesize
from experiments.artifact_rules.published_packing import read_published_pairs
from experiments.pages import publish, study_parser
from experiments.policies.agreement import load_slice
from experiments.policies.policy_comparison import SLICES
from foundation.errors import LucidError, check_names
from foundation.markdown import markdown_table
from lucid_cli.setting_pairs import named_values
from pipeline.replay.cluster_events import ClusterSize
from pipeline.replay.log_file import LogFile
from pipeline.replay.log_scenario import PAIRS_FILE, LogToReplay, read_scenario
from simulator.cluster.spec import ClusterSpec
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario
from simulator.workload.colocation import MeasuredPairs
from simulator.workload.forecast import naive_forecast
from simulator.workload.user_history_estimates import user_history_estimates
from simulator.workload.workload import Workload

POLICIES = (
    "easy",
    "tsafrir_easy",
    "lucid:overtaking_bound_s=0",
    "lucid",
    "clarity:overtaking_bound_s=0",
    "clarity",
)
SYNTHETIC_LIKE, SYNTHETIC_DAYS, SYNTHETIC_SEED = "helios-venus", 28, 3
# Graham's log has only the jobs that once waited at noon, so its pool has the nodes that let these queue.
GRAHAM_NODES = 12


def _slice(name: str) -> Callable[[Path], Scenario]:
    def read(data: Path) -> Scenario:
        folder, packing = data / "reference" / "lucid", data / "data" / "packing"
        jobs, nodes = SLICES[name]
        part = load_slice(folder / jobs, nodes if isinstance(nodes, int) else folder / nodes, packing)
        pairs = MeasuredPairs(read_published_pairs(packing / PAIRS_FILE))
        return Scenario(part.workload, part.cluster, colocation=pairs, forecast=naive_forecast(part.workload))

    return read


def _log(path: str, source_format: str, size: ClusterSize) -> Callable[[Path], Scenario]:
    def read(data: Path) -> Scenario:
        nodes = None if size.nodes is None else str(data / "data" / size.nodes)
        request = LogToReplay(
            LogFile(str(data / "data" / path), source_format),
            ClusterSize(nodes, size.gpus, size.gpus_per_node, size.servers),
        )
        return read_scenario(request, needs_estimates=True).scenario

    return read


def _synthetic(data: Path) -> Scenario:
    made = synthesize(SYNTHETIC_LIKE, SYNTHETIC_DAYS, SYNTHETIC_SEED)
    cluster = ClusterSpec.from_nodes(made.nodes)
    workload = Workload.from_jobs(made.jobs).that_fit(cluster)
    workload = workload.with_estimates(user_history_estimates(workload))
    return Scenario(workload, cluster, forecast=naive_forecast(workload))


LOGS: Mapping[str, Callable[[Path], Scenario]] = {
    "atlas": _log("swf/LLNL-Atlas-2006-cln.swf.gz", "swf", ClusterSize(gpus=9_216)),
    "nasa": _log("swf/NASA-iPSC-1993-3.1-cln.swf.gz", "swf", ClusterSize(gpus=128)),
    "graham": _log("drac_slurm/graham_jobs.csv.gz", "queue", ClusterSize(servers=GRAHAM_NODES)),
    "week1vc48": _slice("week1vc48"),
    "week1vc64": _slice("week1vc64"),
    "philly": _log(
        "philly/philly_jobs.csv.gz", "philly-csv", ClusterSize(nodes="philly/philly_vc_nodes.csv")
    ),
    "venus": _synthetic,
}


@dataclass(frozen=True)
class ChosenPolicy:
    """A policy, and settings of it that differ from its defaults."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parsed(cls, text: str) -> "ChosenPolicy":
        """Read `clarity` or `clarity:holds=0,calm_s=3600`; raises BadInputError for another text."""
        name, _, settings = text.partition(":")
        pairs = settings.split(",") if settings else []
        return cls(name, named_values(pairs, "--policy", "clarity:holds=0,calm_s=3600"))

    def __str__(self) -> str:
        changed = ", ".join(f"{key}={value}" for key, value in self.settings.items())
        return f"{self.name} ({changed})" if changed else self.name


@dataclass(frozen=True)
class PolicyOnLog:
    """How a policy served a log; times in seconds."""

    log: str
    policy: str
    jobs: int
    mean_jct_s: float
    mean_wait_s: float
    p99_wait_s: float
    p999_wait_s: float
    longest_wait_s: float
    cpu_s: float

    def row(self) -> tuple[str, ...]:
        """Return the figures as a table shows them."""
        return (
            self.log,
            self.policy,
            f"{self.jobs:,}",
            f"{self.mean_jct_s:,.0f}",
            f"{self.mean_wait_s:,.1f}",
            f"{self.p99_wait_s:,.0f}",
            f"{self.p999_wait_s:,.0f}",
            f"{self.longest_wait_s:,.0f}",
        )


COLUMNS = ("log", "policy", "jobs", "mean JCT s", "mean wait s", "P99 wait s", "P99.9 wait s", "longest s")


def replayed(name: str, scenario: Scenario, policy: ChosenPolicy) -> PolicyOnLog:
    """Replay a log under a policy."""
    result = simulate(scenario, policy.name, settings=policy.settings)
    waits_s = result.jobs["queuing_delay_s"]
    return PolicyOnLog(
        log=name,
        policy=str(policy),
        jobs=len(result.jobs),
        mean_jct_s=float(result.summary["mean_jct_s"]),
        mean_wait_s=float(waits_s.mean()),
        p99_wait_s=float(waits_s.quantile(0.99)),
        p999_wait_s=float(waits_s.quantile(0.999)),
        longest_wait_s=float(waits_s.max()),
        cpu_s=float(result.summary["cpu_s"]),
    )


def on_logs(data: Path, logs: Sequence[str], policies: Sequence[ChosenPolicy]) -> Iterator[PolicyOnLog]:
    """Replay each policy on each log; raises UnknownNameError for a log that there is not."""
    check_names("log", logs, tuple(LOGS))
    for name in logs:
        scenario = LOGS[name](data)
        for policy in policies:
            found = replayed(name, scenario, policy)
            print("  ".join(found.row()), f" {found.cpu_s:.1f} s of processor time", file=sys.stderr)
            yield found


def table(found: Sequence[PolicyOnLog]) -> str:
    """Return the Markdown table of what was replayed."""
    return markdown_table(COLUMNS, [each.row() for each in found], align_numbers=False)


def main() -> None:
    """Be the command."""
    parser = study_parser("experiments.policies.many_logs", __doc__)
    parser.add_argument("--log", action="append", metavar="NAME", help=f"one of {', '.join(LOGS)}")
    parser.add_argument("--policy", action="append", metavar="NAME[:SETTING=VALUE,...]")
    chosen = parser.parse_args()
    if chosen.data is None:
        parser.error("name the reference data, or set LUCID_REFERENCE_DATA")
    try:
        policies = [ChosenPolicy.parsed(text) for text in chosen.policy or POLICIES]
        found = list(on_logs(Path(chosen.data), chosen.log or tuple(LOGS), policies))
        publish({"many-logs": table(found)}, chosen.write)
    except LucidError as error:
        sys.exit(f"Error: {error}")


if __name__ == "__main__":
    main()
