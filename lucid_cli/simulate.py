"""`lucid simulate`: replay a log under one or more policies."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from foundation.errors import BadInputError, UnknownNameError
from foundation.site import Site
from lucid_cli.option_groups import with_options
from lucid_cli.options import (
    LakeOption,
    LogWindow,
    MtbfOption,
    NodesOption,
    OnePoolOption,
    PairsOption,
    SinglesOption,
    SizeOfNodesOption,
    SpeedUpsOption,
    TrainingServersOption,
    file_option,
    lake_or_default,
    parse_time,
    text_of,
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
from lucid_cli.part_options import ReplayOptions, variadic_of, with_part_options
from lucid_cli.setting_pairs import by_policy, named_values
from lucid_cli.variadic import names_of, variadic

if TYPE_CHECKING:
    from cluster_logs.site.rules import SiteRules
    from pipeline.replay.cluster_events import ClusterEvents, ClusterSize
    from pipeline.replay.recordings import Watching
    from pipeline.replay.run_time_estimates import EstimateSource
    from simulator.prediction import PredictBy

SITE_POLICY = "site"
SHOWN_COLUMNS = (
    "policy",
    "jobs",
    "mean_jct_s",
    "mean_queuing_delay_s",
    "p999_queuing_delay_s",
    "bounded_slowdown_mean",
    "makespan_s",
    "utilisation_pct",
    "preemptions",
    "jobs_per_cpu_s",
)

PREDICTION_COLUMNS = (
    "policy",
    "predict_by",
    "predicted_jobs",
    "mean_pred_err_pct",
    "p90_pred_err_pct",
    "p99_pred_err_pct",
    "later_than_predicted_pct",
    "mean_unfairness",
    "unfair_jobs_pct",
)


@dataclass(frozen=True)
class ReplayedSize:
    """Group of options: how large the cluster is."""

    nodes: NodesOption = None
    cluster: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Or: the nodes of this cluster in the lake, day by day."),
    ] = None
    lake: LakeOption = None
    gpus: OnePoolOption = None
    training_servers: TrainingServersOption = None
    gpus_per_node: SizeOfNodesOption = None

    def check(self) -> None:
        """Raise BadInputError unless the size is given in one way."""
        if [self.nodes, self.gpus, self.training_servers, self.cluster].count(None) != 3:
            raise BadInputError(
                "The cluster's size is not clear.",
                remedy="Give one of --nodes FILE, --gpus N, --training-servers N or the lake's "
                "--cluster NAME.",
            )

    def asked(self) -> "ClusterSize":
        """Return the size, unless the lake says it."""
        from pipeline.replay.cluster_events import ClusterSize

        return ClusterSize.asked(text_of(self.nodes), self.gpus, self.gpus_per_node, self.training_servers)

    def in_lake(self) -> Site | None:
        """Return the cluster of the lake that has this size, if one is named."""
        return Site(lake=lake_or_default(self.lake), cluster=self.cluster) if self.cluster else None


@dataclass(frozen=True)
class ReplayRules:
    """Group of options: the rules of the replay, settings of policies, and what is known of run times."""

    rules: Annotated[
        str | None,
        typer.Option(
            show_default=False,
            help="default, lyra (that of lyra-csv), or a reference simulator's: lucid-artifact, "
            "helios-artifact, or without some of its faults, as in "
            "lucid-artifact-without:lost_partner,free_profiling (all: without any); "
            "pcs-artifact: elastic policies share GPUs in fractions.",
        ),
    ] = None
    setting: Annotated[
        list[str] | None,
        typer.Option(metavar="POLICY.NAME=VALUE", help="A policy's setting; may be repeated."),
    ] = None
    site: Annotated[
        Path | None,
        file_option(
            "What the policy site replays, as `lucid site read` writes it; default: what `lucid site keep` "
            "keeps of --cluster, else Slurm's defaults."
        ),
    ] = None
    estimates: Annotated[
        str | None,
        typer.Option(
            show_default=False,
            help="Where policies have run times from: limit (time limits), log (its own estimates, else the "
            "user's last run times), model (the duration model, fitted on the jobs before --start), truth, "
            "user-history, qssf or qssf-artifact (Helios, by its paper's rules or its artifact's). Default: "
            "limit for backfilling where the log has limits, else log.",
        ),
    ] = None
    estimate_setting: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="A setting of qssf's estimates, as rolling_weight=1 or refit_days=30; may be repeated.",
        ),
    ] = None
    withdrawn: Annotated[
        Literal["leave", "run"],
        typer.Option(
            help="Jobs that left the log's queue without a run: leave (when they did, without a GPU) or run "
            "(as long as they are estimated to, told apart)."
        ),
    ] = "leave"
    predict: Annotated[
        bool,
        typer.Option("--predict", help="Predict each job's end at its submission, and say how far it was."),
    ] = False
    predict_by: Annotated[
        str | None,
        typer.Option(
            metavar="BY",
            help="What ends are predicted by: estimates, known at submission (default), or truth: true run "
            "times, as PCS' authors have it (default of pcs-artifact). Implies --predict.",
        ),
    ] = None

    def policy_settings(
        self, policies: Sequence[str], of_parts: Sequence[ReplayOptions], rule_set: str, lake: Site | None
    ) -> dict[str, dict[str, object]]:
        """Return the policies' settings, with what the policy `site` replays: what the file declares, else
        what the lake keeps of its cluster.
        """
        settings = by_policy(named_values(self.setting, "--setting", "lucid.sharing=apathetic"))
        for options in of_parts:
            settings = options.policy_settings(settings, policies, rule_set)
        if self.site is None and (SITE_POLICY not in policies or lake is None):
            return settings
        from cluster_logs.site.site_file import read_site, site_data
        from cluster_logs.site.stored_site import stored_site

        if self.site is not None and SITE_POLICY not in policies:
            raise BadInputError(
                f"--site {self.site} is given, and no policy replays it.",
                remedy=f"Give --policy {SITE_POLICY}, too.",
            )
        if self.site is not None:
            rules: SiteRules | None = read_site(self.site)
        else:
            rules = stored_site(lake.lake, lake.cluster) if lake is not None else None
        if rules is None:
            return settings
        return {**settings, SITE_POLICY: {**settings.get(SITE_POLICY, {}), "site": site_data(rules)}}

    def predicted_by(self) -> "PredictBy | None":
        """Return what ends are predicted by, if it is said; raises UnknownNameError."""
        from simulator.prediction import PREDICT_BY

        if self.predict_by is not None and self.predict_by not in PREDICT_BY:
            raise UnknownNameError("run times to predict by", self.predict_by, PREDICT_BY)
        return self.predict_by

    def run_times(self) -> "EstimateSource":
        """Return where policies have run times from."""
        from pipeline.replay.run_time_estimates import EstimateSource

        values = named_values(self.estimate_setting, "--estimate-setting", "rolling_weight=1")
        return EstimateSource(self.estimates, values)


@dataclass(frozen=True)
class ReplayedJobs:
    """Group of options: what is known of jobs beside the log, and of the nodes beside their number."""

    speed_ups: SpeedUpsOption = None
    elastic: Annotated[
        int | None,
        typer.Option(metavar="MIN", help="Treat rigid jobs as elastic: content with MIN GPUs or more."),
    ] = None
    singles: SinglesOption = None
    pairs: PairsOption = None
    seed: Annotated[int, typer.Option(help="Of whatever the log does not say (job types, failures).")] = 0
    cpu_cores_per_node: Annotated[
        int, typer.Option(min=0, metavar="N", help="Cores of each node for CPU jobs; 0: skip CPU jobs.")
    ] = 0
    failures: Annotated[Path | None, file_option("CSV virtual_cluster,node,at,down_s: nodes that fail.")] = (
        None
    )
    failure_mtbf_hours: MtbfOption = None
    failure_repair_hours: Annotated[
        float, typer.Option(metavar="H", help="Mean hours until such a node is back.")
    ] = 4.0

    def events(self, lake: Site | None) -> "ClusterEvents":
        """Return what happens to the cluster."""
        from pipeline.replay.cluster_events import ClusterEvents

        return ClusterEvents(
            lake,
            cpu_cores_per_node=self.cpu_cores_per_node,
            failures_path=self.failures,
            failure_mtbf_hours=self.failure_mtbf_hours,
            failure_repair_hours=self.failure_repair_hours,
        )


@dataclass(frozen=True)
class Watched:
    """Group of options: what is drawn and written of a replay beside its results."""

    plot: Annotated[
        bool,
        typer.Option("--plot/--no-plot", help="Draw pictures: of the results, and of the cluster over time."),
    ] = False
    timeline: Annotated[
        bool,
        typer.Option(
            "--timeline", help="Write timeline_POLICY.json.gz for ui.perfetto.dev, chrome://tracing."
        ),
    ] = False
    timeline_from: Annotated[
        str | None, typer.Option(metavar="TIME", help="Begin the timeline here; naive: the log's zone.")
    ] = None
    timeline_until: Annotated[str | None, typer.Option(metavar="TIME", help="End the timeline here.")] = None
    timeline_slices: Annotated[
        int, typer.Option(min=1, metavar="N", help="End it after so many slices (one a GPU and run).")
    ] = 1_000_000
    waits: Annotated[
        bool, typer.Option("--waits", help="Write waits_POLICY.csv: each job's waiting time by cause.")
    ] = False
    why: Annotated[
        list[str] | None,
        typer.Option(metavar="JOB_ID ...", help="Explain in words why these jobs waited."),
    ] = None

    def watching(self) -> "Watching":
        """Return what is recorded."""
        from pipeline.replay.recordings import Watching

        return Watching(
            plot=self.plot,
            timeline=self.timeline or bool(self.timeline_from or self.timeline_until),
            timeline_from=parse_time(self.timeline_from, "--timeline-from"),
            timeline_until=parse_time(self.timeline_until, "--timeline-until"),
            timeline_slices=self.timeline_slices,
            waits=self.waits,
            why=tuple(dict.fromkeys(self.why or ())),
        )


@with_part_options("simulate")
@with_options(ReplayedSize, LogWindow, ReplayRules, ReplayedJobs, Watched)
def simulate(
    size: ReplayedSize,
    window: LogWindow,
    asked: ReplayRules,
    beside: ReplayedJobs,
    watched: Watched,
    of_parts: tuple[ReplayOptions, ...],
    jobs: Annotated[Path, file_option("The log to replay.")],
    source_format: Annotated[str, typer.Option("--format", metavar="F", help="The log's format.")],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Receives jobs_POLICY.csv, summary.json and the like.")
    ],
    policy: Annotated[
        list[str], typer.Option(metavar="P ...", help="Policies' names: a b, a,b or repeated.")
    ],
    as_json: JsonFlag = False,
) -> None:
    """Replay a log under one or more policies and compare them."""
    from pipeline.replay.log_scenario import LogToReplay
    from pipeline.replay.simulation import simulate_log
    from simulator.recorders.waiting_text import in_words_by_cause
    from simulator.scenario.rules import load_rules

    size.check()
    policies, lake = names_of(policy), size.in_lake()
    known_rules = (options.rules(source_format) for options in of_parts)
    rule_set = asked.rules or next((name for name in known_rules if name is not None), "default")
    companions = [options.companion(source_format, beside.seed) for options in of_parts]
    settings = asked.policy_settings(policies, of_parts, rule_set, lake)
    predict_by = asked.predicted_by()
    predict = asked.predict or predict_by is not None
    if (beside.singles is None) != (beside.pairs is None):
        raise BadInputError("Colocation needs both measurements.", remedy="Give --singles and --pairs.")
    with progress_reporter() as progress:
        rules = load_rules(rule_set)
        report = simulate_log(
            LogToReplay(
                window.log(str(jobs), source_format, rules),
                size.asked(),
                beside.events(lake),
                rules=rules,
                singles_path=beside.singles,
                pairs_path=beside.pairs,
                speed_ups_path=beside.speed_ups,
                elastic_min_gpus=beside.elastic,
                estimates=asked.run_times(),
                seed=beside.seed,
                companions=tuple(each for each in companions if each is not None),
                withdrawn=asked.withdrawn,
            ),
            policies,
            out,
            settings=settings,
            predict=predict,
            predict_by=predict_by,
            watching=watched.watching(),
            progress=progress,
        )
    for line in report.remarks:
        say(line)

    def people() -> None:
        print_table(to_jsonable(report.summaries), title=f"{jobs.name} replayed", columns=SHOWN_COLUMNS)
        if predict:
            title = "How far jobs' ends were from what was predicted"
            print_table(to_jsonable(report.summaries), title=title, columns=PREDICTION_COLUMNS)
        for options, companion in zip(of_parts, companions, strict=True):
            if companion is not None:
                print_table(to_jsonable(report.summaries), title=options.title, columns=options.columns)
        print_facts({"written": str(out)})
        if any("mean_waits_s" in summary for summary in report.summaries):
            rows = [
                {"policy": summary["policy"], **in_words_by_cause(summary["mean_waits_s"])}
                for summary in report.summaries
            ]
            print_table(rows, title="What jobs waited for, on average")
        for summary in report.summaries:
            for row in summary.get("why", ()):
                print_lines([f"Under {summary['policy']}:", *row["sentences"]])

    show(to_jsonable(report.summaries), as_json=as_json, people=people)


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(cls=variadic("--policy", "--setting", "--why", *variadic_of("simulate")))(simulate)
