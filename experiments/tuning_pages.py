"""The tables of docs/tuning.md: `python -m experiments.tuning_pages [DATA] [--write docs/tuning.md]`.

DATA is the folder that LUCID_REFERENCE_DATA names: Philly's log, and the measured pairs that all studies
share. Studies lie in `--state` and go on there when they were interrupted.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cluster_logs.ingest import ingest_log
from cluster_logs.lake import Lake
from cluster_logs.synthetic.generator import synthesize, write_to_lake
from experiments.pages import publish, study_parser
from experiments.reproduction.ablations import ALL_PROFILED
from foundation.errors import LucidError
from foundation.progress import Progress, reporting
from foundation.site import Site
from pipeline.profiling.profile_store import ingest_profiles
from pipeline.studies.tuning.plan import TuningSpec, plan_study
from pipeline.studies.tuning.proposal import propose
from pipeline.studies.tuning.report import study_markdown, weights_of, write_report
from pipeline.studies.tuning.space import TuningBase
from pipeline.studies.tuning.study import run_study

TRIALS = 24
VENUS_DAYS = 42
PHILLY_LOADED_SHARE = 0.5  # of each virtual cluster's nodes, rounded up: the public copy of Philly is light


@dataclass(frozen=True)
class TuningExample:
    """One study of the page: the log, what holds before tuning, and which days."""

    title: str
    cluster: str
    fill: Callable[[Path, str, str], None]  # the reference data, the lake, the cluster's name
    settings: Mapping[str, Any] = field(default_factory=dict)
    spec: TuningSpec = field(default_factory=TuningSpec)


def _venus(data: Path, lake_uri: str, cluster: str) -> None:
    write_to_lake(synthesize("helios-venus", VENUS_DAYS, 0, cluster=cluster), Lake(lake_uri), cluster)


def _philly(share: float) -> Callable[[Path, str, str], None]:
    def fill(data: Path, lake_uri: str, cluster: str) -> None:
        import pandas as pd

        philly = data / "data" / "philly"
        ingest_log(
            source_format="philly-csv",
            input_uri=str(philly / "philly_jobs.csv.gz"),
            cluster=cluster,
            lake_uri=lake_uri,
        )
        nodes = pd.read_csv(philly / "philly_vc_nodes.csv", dtype={0: str})
        nodes.columns = pd.Index(["virtual_cluster", "nodes"])
        scaled = [max(1, -int(-count * share // 1)) for count in nodes["nodes"]]
        Lake(lake_uri).write_nodes(cluster, nodes.assign(nodes=scaled, gpus_per_node=8, date=None))

    return fill


CASES: Mapping[str, TuningExample] = {
    "venus": TuningExample(
        f"{VENUS_DAYS} synthetic days like Venus (`lucid synthesize --like helios-venus --days {VENUS_DAYS} "
        "--seed 0`), default settings",
        "synthetic-venus",
        _venus,
    ),
    "venus_all_profiled": TuningExample(
        "The same log, every small job profiled first, T_prof fixed (as the paper describes its profiler)",
        "synthetic-venus-profiled",
        _venus,
        settings={**ALL_PROFILED, "profiling_scales": False},
    ),
    "philly": TuningExample("Philly, default settings", "philly", _philly(1.0)),
    "philly_half": TuningExample(
        "Philly on half of each virtual cluster's nodes (rounded up), default settings",
        "philly-half",
        _philly(PHILLY_LOADED_SHARE),
    ),
}


def study_case(case: TuningExample, data: Path, state: Path, workers: int, progress: Progress) -> str:
    """Run a case's study (or what is left of it) and return its report."""
    lake_uri = str(state / "lake")
    if case.cluster not in Lake(lake_uri).clusters("nodes"):
        packing = data / "data" / "packing"
        case.fill(data, lake_uri, case.cluster)
        ingest_profiles(
            Site(lake=lake_uri, cluster=case.cluster),
            singles_uri=str(packing / "single_jobs_rtx3090.csv"),
            pairs_uri=str(packing / "colocated_pairs_rtx3090.csv"),
        )
    study = plan_study(
        Site(lake=lake_uri, cluster=case.cluster, progress=progress),
        spec=case.spec,
        base=TuningBase(case.settings),
    )
    run_study(study, trials=TRIALS, workers=workers, progress=progress)
    proposal = propose(study, progress=progress)
    write_report(study, proposal)
    trials = study.trials()
    report = study_markdown(study, trials, proposal, weights_of(study, trials))
    return f"### {case.title}\n\n{report}"


def main() -> None:
    """Write the named studies, by default all."""
    parser = study_parser("experiments.tuning_pages", __doc__)
    parser.add_argument("--only", nargs="*", choices=list(CASES), default=list(CASES))
    parser.add_argument("--state", type=Path, default=Path(".lucid/tuning-pages"))
    parser.add_argument("--workers", type=int, default=1)
    chosen = parser.parse_args()
    if chosen.data is None:
        parser.error("name the reference data, or set LUCID_REFERENCE_DATA")
    try:
        with reporting(sys.stderr) as progress:
            tables = {
                name: study_case(CASES[name], Path(chosen.data), chosen.state, chosen.workers, progress)
                for name in chosen.only
            }
        publish(tables, chosen.write)
    except LucidError as error:
        sys.exit(f"Error: {error}")


if __name__ == "__main__":
    main()
