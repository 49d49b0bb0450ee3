"""`lucid sweep`: policies x settings x seeds on one log, in parallel; interrupted sweeps go on."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from foundation.errors import BadInputError
from foundation.usable_cores import usable_cores
from lucid_cli.option_groups import with_options
from lucid_cli.options import (
    AllCoresOption,
    ColdOption,
    EndOption,
    LakeOption,
    LogFormatOption,
    MtbfOption,
    NodesOption,
    OnePoolOption,
    PairsOption,
    SinglesOption,
    StartOption,
    TimeZoneOption,
    file_option,
)
from lucid_cli.output import (
    JsonFlag,
    print_facts,
    print_table,
    progress_reporter,
    say,
    show,
    to_jsonable,
)
from lucid_cli.part_options import SweepOptions, variadic_of, with_part_options
from lucid_cli.setting_pairs import by_policy, value_lists
from lucid_cli.variadic import names_of, variadic

SHOWN_FIGURES = (
    "mean_jct_s",
    "mean_queuing_delay_s",
    "p999_queuing_delay_s",
    "utilisation_pct",
    "bounded_slowdown_mean",
)
SHOWN_ROWS = 40  # of the screen's table, the best first; all runs are in the files


@dataclass(frozen=True)
class SweptLog:
    """Group of options: the log, its cluster and what is known of its jobs, as keys of a sweep file."""

    jobs: Annotated[Path | None, file_option("The log to replay.")] = None
    source_format: LogFormatOption = None
    cluster: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Or: jobs, nodes and profiles of this cluster in the lake."),
    ] = None
    lake: LakeOption = None
    nodes: NodesOption = None
    gpus: OnePoolOption = None
    gpus_per_node: Annotated[int | None, typer.Option(min=1, help="GPUs of one node; default 8.")] = None
    start: StartOption = None
    end: EndOption = None
    time_zone: TimeZoneOption = None
    cold: ColdOption = False
    rules: Annotated[str | None, typer.Option(help="A rule set by name; default: default.")] = None
    job_types: Annotated[
        str | None, typer.Option(help="log, or drawn: profiles that the log lacks are drawn from --singles.")
    ] = None
    singles: SinglesOption = None
    pairs: PairsOption = None
    cpu_cores_per_node: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Cores of each node for CPU jobs; 0: skip CPU jobs."),
    ] = None
    failure_mtbf_hours: MtbfOption = None
    failure_repair_hours: Annotated[
        float | None, typer.Option(metavar="H", help="Mean hours until such a node is back; default 4.")
    ] = None

    def keys(self) -> dict[str, Any]:
        """Return what is stated. Raises BadInputError for nodes of one pool of GPUs."""
        if self.gpus is not None and self.gpus_per_node is not None:
            raise BadInputError(
                "One virtual cluster of --gpus has no nodes of --gpus-per-node.",
                remedy="Give one of them; for nodes write --nodes FILE.",
            )
        keys = {**vars(self), "format": self.source_format, "cold": self.cold or None}
        del keys["source_format"]
        return {key: str(value) if isinstance(value, Path) else value for key, value in keys.items()}


@dataclass(frozen=True)
class Varied:
    """Group of options: what a sweep varies, as keys of a sweep file."""

    policy: Annotated[
        list[str] | None, typer.Option(metavar="P ...", help="Policies' names: a b, a,b or repeated.")
    ] = None
    setting: Annotated[
        list[str] | None,
        typer.Option(metavar="POLICY.NAME=V,V", help="Values to try; several settings: all combinations."),
    ] = None
    seed: Annotated[
        list[str] | None,
        typer.Option(metavar="N,N", help="Seeds of what is drawn: job types, estimate noise. Default 0."),
    ] = None
    node_scale: Annotated[
        list[str] | None, typer.Option(metavar="X,X", help="Factors on every virtual cluster's nodes.")
    ] = None
    added_nodes: Annotated[
        list[str] | None,
        typer.Option(
            metavar="VC=N", help="Nodes more (or -N fewer), beside the present: vc1=-2, or *=4 in proportion."
        ),
    ] = None
    live_release: Annotated[
        bool, typer.Option("--live-release", help="With --cluster: by its live release's models.")
    ] = False
    estimate_noise: Annotated[
        list[str] | None,
        typer.Option(
            metavar="X,X", help="Estimates are true run times x exp(X x N(0,1)) instead of the log's."
        ),
    ] = None

    def keys(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is stated; `settings` are those that a file states for policies not named here."""
        tried = by_policy(value_lists(self.setting, "--setting", "lucid.profiling_limit_s=60,100,200"))
        return {
            "policies": names_of(self.policy) if self.policy else None,
            "settings": {**settings, **tried} if self.setting else None,
            "seeds": numbers(self.seed, "--seed") if self.seed else None,
            "node_scales": numbers(self.node_scale, "--node-scale") if self.node_scale else None,
            "added_nodes": read_added_nodes(self.added_nodes) if self.added_nodes else None,
            "live_release": self.live_release or None,
            "estimate_noises": numbers(self.estimate_noise, "--estimate-noise")
            if self.estimate_noise
            else None,
        }


@with_part_options("sweep")
@with_options(Varied)
@with_options(SweptLog)
def sweep(
    log: SweptLog,
    varied: Varied,
    of_parts: tuple[SweepOptions, ...],
    out: Annotated[
        str, typer.Option(metavar="DIR", help="Folder or URI for records, results.csv, .parquet, plots.")
    ],
    spec: Annotated[Path | None, file_option("TOML with the same names; options stand above it.")] = None,
    keep_jobs: Annotated[
        bool, typer.Option("--keep-jobs", help="Keep each job's wait with its causes, and usage over time.")
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Compute runs that are done again, after a change of code.")
    ] = False,
    workers: AllCoresOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Run policies x settings x seeds on one log, in parallel, into one tidy table.

    Run the same command again to go on after an interruption: what is done is not computed again. A run that
    fails is a row with its error, and the exit code is 1.
    """
    from pipeline.studies.sweeps.report import collect_sweep
    from pipeline.studies.sweeps.runs import axes_of, variants
    from pipeline.studies.sweeps.spec import SweepSpec
    from pipeline.studies.sweeps.sweep import plan_sweep, run_pending

    sweep_spec = SweepSpec() if spec is None else SweepSpec.from_toml(spec)
    options = {
        **log.keys(),
        **varied.keys(sweep_spec.settings),
        "keep_jobs": keep_jobs or None,
        **{name: value for of_part in of_parts for name, value in of_part.changes(sweep_spec).items()},
    }
    sweep_spec = sweep_spec.changed({key: value for key, value in options.items() if value is not None})
    sweep_spec = sweep_spec.with_live_settings()
    runs = sweep_spec.runs()  # an unknown name is an error before long work
    with progress_reporter() as progress:
        inputs = sweep_spec.read_inputs(progress)
    plan = plan_sweep(inputs, runs, out, keep_jobs=sweep_spec.keep_jobs)
    for line in plan.remarks:
        say(line)
    with progress_reporter() as progress:
        done = run_pending(plan, workers=workers or usable_cores(), fresh=fresh, progress=progress)
    total, reused = len(plan.runs), len(plan.runs) - done.runs
    say(f"{total:,} of {total:,} runs, {reused:,} done before, {done.jobs_per_s:,.0f} jobs/s")
    report = collect_sweep(plan)
    document = {
        "out": out,
        "runs": total,
        "executed": done.runs,
        "reused": reused,
        "failed": len(report.not_ok),
        "jobs_per_s": done.jobs_per_s,
        "table": report.table_uri,
        "csv": report.csv_uri,
        "figures": report.figures,
        "rows": to_jsonable(rows_of(report.table)),
    }

    def people() -> None:
        log_name = Path(sweep_spec.jobs).name or sweep_spec.cluster
        axes = [axis for axis in axes_of(report.table) if report.table[axis].nunique(dropna=False) > 1]
        short = {axis: axis.rpartition(".")[2] for axis in axes}
        if len(set(short.values())) == len(short):
            axes = list(short.values())
        else:
            short = {}
        of_a_part = next((each.figures for each in of_parts if each.figures[-1] in report.table), None)
        shown = SHOWN_FIGURES if of_a_part is None else (*SHOWN_FIGURES[:2], *of_a_part)
        rows = [
            {short.get(name, name): value for name, value in row.items()}
            for row in variants(report.table, shown)
        ]
        print_table(
            rows[:SHOWN_ROWS],
            title=f"{log_name}: {total:,} runs, means over seeds",
            columns=["policy", *axes, "seeds", "mean_jct_s", "spread_jct_s", *shown[1:]],
        )
        if len(rows) > SHOWN_ROWS:
            say(f"... and {len(rows) - SHOWN_ROWS:,} more variants in the table.")
        facts = ("runs", "executed", "reused", "failed", "jobs_per_s", "table", "csv", "figures")
        print_facts({key: document[key] for key in facts})

    show(document, as_json=as_json, people=people)
    report.raise_for_failure()


def read_added_nodes(options: list[str]) -> dict[str, int]:
    """Read VC=N options, nodes more or fewer; `*` is all virtual clusters in proportion."""
    added = {}
    for option in options:
        name, sign, text = option.rpartition("=")
        try:
            added[name] = int(text)
        except ValueError:
            sign = ""
        if not (sign and name):
            raise BadInputError(
                f"--added-nodes {option!r} is not VIRTUAL_CLUSTER=NODES.",
                remedy="Write for example vc1=-2, or *=4 in proportion.",
            )
    return added


def numbers(options: list[str], name: str) -> list[int | float]:
    """Read lists of numbers, `0,1,2` or `0:10` (0 to 9)."""
    values: list[int | float] = []
    for part in names_of(options):
        first, colon, last = part.partition(":")
        try:
            if colon:
                values += range(int(first), int(last))
            else:
                values.append(float(part) if any(c in part for c in ".eE") else int(part))
        except ValueError as error:
            raise BadInputError(f"{name} {part!r} is not a number.", remedy="Write 0,1,2 or 0:3.") from error
    return values


def rows_of(table: Any) -> list[dict[str, Any]]:
    """Return the table's rows as plain values; an empty cell is None."""
    import pandas as pd

    return [
        {str(key): None if pd.isna(value) else value for key, value in row.items()}
        for row in table.to_dict(orient="records")
    ]


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    cluster = ("--node-scale", "--added-nodes", *variadic_of("sweep"))
    lists = ("--policy", "--setting", "--seed", "--estimate-noise", *cluster)
    app.command(cls=variadic(*lists))(sweep)
