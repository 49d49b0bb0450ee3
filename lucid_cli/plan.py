"""`lucid plan`: how many nodes keep waits under a limit, and what installed parts change."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foundation.errors import BadInputError
from foundation.site import Site
from lucid_cli.option_groups import with_options
from lucid_cli.options import (
    AllCoresOption,
    ColdOption,
    EndOption,
    GpusPerNodeOption,
    LakeOption,
    LogFormatOption,
    PolicySettingOption,
    StartOption,
    TimeZoneOption,
    TrackingOption,
    TrainingServersOption,
    energy,
    file_option,
    folder_option,
    lake_or_default,
    parse_time,
    text_of,
    tracking_or_default,
)
from lucid_cli.output import (
    JsonFlag,
    print_facts,
    print_lines,
    print_table,
    progress_reporter,
    say,
    show,
    to_jsonable,
)
from lucid_cli.part_options import PlanOptions, variadic_of, with_part_options
from lucid_cli.setting_pairs import by_policy, named_values
from lucid_cli.variadic import variadic

if TYPE_CHECKING:
    from pipeline.planning.capacity_plan import PlanSettings
    from pipeline.planning.log_request import LogRequest
    from pipeline.planning.planned_run import PlannedRun
    from pipeline.planning.report import CapacityReport
    from simulator.energy import EnergySettings


@dataclass(frozen=True)
class LogToPlan:
    """Group of options: the log, and its cluster at present."""

    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="NAME", help="Jobs and nodes of a cluster in the lake.")
    ] = None
    lake: LakeOption = None
    jobs: Annotated[str | None, file_option("A log instead.")] = None
    source_format: LogFormatOption = None
    nodes: Annotated[Path | None, file_option("CSV virtual_cluster,nodes: the cluster at present.")] = None
    gpus: Annotated[
        int | None, typer.Option(min=1, help="Or: one pool of N GPUs, planned in steps of --gpus-per-node.")
    ] = None
    gpus_per_node: GpusPerNodeOption = 8
    start: StartOption = None
    end: EndOption = None
    time_zone: TimeZoneOption = None
    cold: ColdOption = False
    rules: Annotated[
        str | None, typer.Option(help="A rule set, as of `lucid simulate`; default: that of the format.")
    ] = None
    training_servers: TrainingServersOption = None

    def request(self, of_parts: Sequence[PlanOptions]) -> "LogRequest":
        """Return which log is planned for. Raises BadInputError for a time that is none."""
        from pipeline.planning.log_request import LogRequest

        for text, option in ((self.start, "--start"), (self.end, "--end")):
            parse_time(text, option)
        stated = {**vars(self), "nodes": text_of(self.nodes)}
        del stated["lake"]
        beside = {name: value for options in of_parts for name, value in options.of_log().items()}
        return LogRequest(
            **stated, lake_uri=lake_or_default(self.lake) if self.cluster else None, of_parts=beside
        )


@dataclass(frozen=True)
class AskedOfPlan:
    """Group of options: the policy, the limit of its waits, and what is tried."""

    policy: Annotated[
        str | None,
        typer.Option(metavar="P", help="Default: that of the cluster's champion, else fifo."),
    ] = None
    setting: PolicySettingOption = None
    metric: Annotated[str, typer.Option(help="Of the waits: mean, p50, p95, p99.")] = "p95"
    limit_s: Annotated[float, typer.Option("--limit-s", min=0, help="What it is to be at most.")] = 600.0
    points: Annotated[int, typer.Option(min=2, help="Sizes of the table, beside those of answers.")] = 12
    by_virtual_cluster: Annotated[
        bool,
        typer.Option("--by-virtual-cluster/--cluster-only", help="Ask of each virtual cluster, too."),
    ] = True
    block_days: Annotated[
        float, typer.Option(help="Days of a block of the bootstrap: 1, or 7 for weeks.")
    ] = 1.0
    price_per_node_day: Annotated[
        float, typer.Option(min=0, metavar="P", help="Price of a node for a day, without its energy.")
    ] = 0.0
    seed: Annotated[int, typer.Option(min=0, help="Of boots that fail, and of the bootstrap.")] = 0

    def settings(
        self,
        of_parts: Sequence[PlanOptions],
        savings: "EnergySettings",
        cluster: str | None,
        tracking_uri: str | None,
    ) -> "PlanSettings":
        """Return what is asked; without a policy that of the cluster's champion."""
        from pipeline.planning.capacity_plan import PlanSettings
        from pipeline.planning.plan_rows import Prices
        from pipeline.studies.wait_target import Resampling, WaitTarget

        return PlanSettings(
            self._run(cluster, tracking_uri),
            WaitTarget(self.metric, self.limit_s),
            Resampling(self.block_days, seed=self.seed),
            Prices(savings, self.price_per_node_day),
            points=self.points,
            by_virtual_cluster=self.by_virtual_cluster,
            asked={name: value for options in of_parts for name, value in options.asked().items()},
        )

    def _run(self, cluster: str | None, tracking_uri: str | None) -> "PlannedRun":
        from pipeline.planning.planned_run import PlannedRun
        from pipeline.planning.planner import DEFAULT_POLICY, policy_of_release

        if self.policy is None and cluster is not None:
            run = policy_of_release(Site(registry=tracking_or_default(tracking_uri), cluster=cluster))
        else:
            run = PlannedRun(self.policy or DEFAULT_POLICY)
        prefixed = [
            pair if "." in pair.partition("=")[0] else f"{run.policy}.{pair}" for pair in self.setting or []
        ]
        by_its_policy = by_policy(named_values(prefixed, "--setting", "sharing=apathetic"))
        foreign = sorted(set(by_its_policy) - {run.policy})
        if foreign:
            raise BadInputError(
                f"A setting is given for {foreign[0]!r}, but the plan runs {run.policy!r}.",
                remedy="Give --policy, or leave it out.",
            )
        return replace(run, settings={**run.settings, **by_its_policy.get(run.policy, {})}, seed=self.seed)


@with_options(energy)
@with_part_options("plan")
@with_options(AskedOfPlan)
@with_options(LogToPlan)
def plan(
    log: LogToPlan,
    asked: AskedOfPlan,
    of_parts: tuple[PlanOptions, ...],
    savings: "EnergySettings",
    out: Annotated[
        Path | None, folder_option("Page, CSV and JSON files, replays; default: in .lucid/plans.")
    ] = None,
    workers: AllCoresOption = None,
    tracking_uri: TrackingOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Plan capacity by replays: nodes that keep waits under a limit, and what installed parts change.

    Each row says the `lucid simulate` that repeats it. What was replayed into the same --out is not replayed
    again. What comes from the lake, or has --tracking-uri, is kept in MLflow.
    """
    from pipeline.planning.planner import default_folder, plan_capacity
    from pipeline.planning.report import log_report

    cluster = log.cluster
    request = log.request(of_parts)
    settings = asked.settings(of_parts, savings, cluster, tracking_uri)
    folder = out or default_folder(request)
    with progress_reporter() as progress:
        report = plan_capacity(
            request,
            settings,
            folder,
            name=cluster or Path(log.jobs or "").name,
            workers=workers,
            progress=progress,
        )
        if cluster is not None or tracking_uri is not None:
            log_report(report, folder, tracking_or_default(tracking_uri))
    for line in report.plan.remarks:
        say(line)
    document = to_jsonable(report.to_dict()) | {"page": str(folder / "index.html")}
    show(document, as_json=as_json, people=lambda: _print(report, folder))


def _print(report: "CapacityReport", folder: Path) -> None:
    from simulator.wait_fidelity.grade import RULE

    target = report.settings.target
    shown = ("nodes", "variant", target.column, "low", "high", "kwh", "cost", "nodes_asleep_mean", "holds")
    answers = report.plan.answers
    rows = [{"pool": each.pool, "with": each.variant, "answer": each.answer} for each in answers]
    print_table(rows, title=f"{report.name}: {answers[0].question}")
    front = to_jsonable(report.plan.front)
    print_table(front, title="The front: fewer nodes, less energy, shorter waits", columns=shown)
    command = answers[0].command
    if command:
        print_lines(["The first answer, repeated:", command])
    if report.grade is not None:
        print_lines([report.grade.sentence, RULE])
    print_facts(
        {"replays": report.replays, "known before": report.reused, "page": str(folder / "index.html")}
    )


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(cls=variadic(*variadic_of("plan")))(plan)
