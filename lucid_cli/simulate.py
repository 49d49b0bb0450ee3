"""`lucid simulate`: replay a log under one or more policies."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from foundation.errors import BadInputError, UnknownNameError
from lucid_cli.options import (
    ColdOption,
    EndOption,
    LakeOption,
    MtbfOption,
    NodesOption,
    OnePoolOption,
    PairsOption,
    SinglesOption,
    SizeOfNodesOption,
    SpeedUpsOption,
    StartOption,
    TimeZoneOption,
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


@with_part_options("simulate")
def simulate(
    of_parts: tuple[ReplayOptions, ...],
    jobs: Annotated[Path, file_option("The log to replay.")],
    source_format: Annotated[str, typer.Option("--format", metavar="F", help="The log's format.")],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Receives jobs_POLICY.csv, summary.json and the like.")
    ],
    policy: Annotated[
        list[str], typer.Option(metavar="P ...", help="Policies' names: a b, a,b or repeated.")
    ],
    nodes: NodesOption = None,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Or: the nodes of this cluster in the lake, day by day."),
    ] = None,
    lake: LakeOption = None,
    gpus: OnePoolOption = None,
    training_servers: TrainingServersOption = None,
    gpus_per_node: SizeOfNodesOption = None,
    start: StartOption = None,
    end: EndOption = None,
    time_zone: TimeZoneOption = None,
    cold: ColdOption = False,
    rules: Annotated[
        str | None,
        typer.Option(
            show_default=False,
            help="default, lyra (that of lyra-csv), or a reference simulator's: lucid-artifact, "
            "helios-artifact, or without some of its faults, as in "
            "lucid-artifact-without:lost_partner,free_profiling (all: without any); "
            "pcs-artifact: elastic policies share GPUs in fractions.",
        ),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(metavar="POLICY.NAME=VALUE", help="A policy's setting; may be repeated."),
    ] = None,
    site: Annotated[
        Path | None,
        file_option(
            "What the policy site replays, as `lucid site read` writes it; default: what `lucid site keep` "
            "keeps of --cluster, else Slurm's defaults."
        ),
    ] = None,
    estimates: Annotated[
        str | None,
        typer.Option(
            show_default=False,
            help="Where policies have run times from: limit (time limits), log (its own estimates, else the "
            "user's last run times), model (the duration model, fitted on the jobs before --start), truth, "
            "user-history, qssf or qssf-artifact (Helios, by its paper's rules or its artifact's). Default: "
            "limit for backfilling where the log has limits, else log.",
        ),
    ] = None,
    estimate_setting: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="A setting of qssf's estimates, as rolling_weight=1 or refit_days=30; may be repeated.",
        ),
    ] = None,
    withdrawn: Annotated[
        Literal["leave", "run"],
        typer.Option(
            help="Jobs that left the log's queue without a run: leave (when they did, without a GPU) or run "
            "(as long as they are estimated to, told apart)."
        ),
    ] = "leave",
    predict: Annotated[
        bool,
        typer.Option("--predict", help="Predict each job's end at its submission, and say how far it was."),
    ] = False,
    predict_by: Annotated[
        str | None,
        typer.Option(
            metavar="BY",
            help="What ends are predicted by: estimates, known at submission (default), or truth: true run "
            "times, as PCS' authors have it (default of pcs-artifact). Implies --predict.",
        ),
    ] = None,
    speed_ups: SpeedUpsOption = None,
    elastic: Annotated[
        int | None,
        typer.Option(metavar="MIN", help="Treat rigid jobs as elastic: content with MIN GPUs or more."),
    ] = None,
    singles: SinglesOption = None,
    pairs: PairsOption = None,
    seed: Annotated[int, typer.Option(help="Of whatever the log does not say (job types, failures).")] = 0,
    cpu_cores_per_node: Annotated[
        int, typer.Option(min=0, metavar="N", help="Cores of each node for CPU jobs; 0: skip CPU jobs.")
    ] = 0,
    failures: Annotated[
        Path | None, file_option("CSV virtual_cluster,node,at,down_s: nodes that fail.")
    ] = None,
    failure_mtbf_hours: MtbfOption = None,
    failure_repair_hours: Annotated[
        float, typer.Option(metavar="H", help="Mean hours until such a node is back.")
    ] = 4.0,
    plot: Annotated[
        bool,
        typer.Option("--plot/--no-plot", help="Draw pictures: of the results, and of the cluster over time."),
    ] = False,
    timeline: Annotated[
        bool,
        typer.Option(
            "--timeline", help="Write timeline_POLICY.json.gz for ui.perfetto.dev, chrome://tracing."
        ),
    ] = False,
    timeline_from: Annotated[
        str | None, typer.Option(metavar="TIME", help="Begin the timeline here; naive: the log's zone.")
    ] = None,
    timeline_until: Annotated[str | None, typer.Option(metavar="TIME", help="End the timeline here.")] = None,
    timeline_slices: Annotated[
        int, typer.Option(min=1, metavar="N", help="End it after so many slices (one a GPU and run).")
    ] = 1_000_000,
    waits: Annotated[
        bool, typer.Option("--waits", help="Write waits_POLICY.csv: each job's waiting time by cause.")
    ] = False,
    why: Annotated[
        list[str] | None,
        typer.Option(metavar="JOB_ID ...", help="Explain in words why these jobs waited."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Replay a log under one or more policies and compare them."""
    from pipeline.replay.cluster_events import ClusterEvents, ClusterSize
    from pipeline.replay.log_file import LogFile
    from pipeline.replay.log_scenario import LogToReplay
    from pipeline.replay.recordings import Watching
    from pipeline.replay.run_time_estimates import EstimateSource
    from pipeline.replay.simulation import simulate_log
    from pipeline.replay.warm_up import warm_up_days_of
    from simulator.prediction import PREDICT_BY
    from simulator.recorders.waiting_text import in_words_by_cause
    from simulator.scenario.rules import load_rules

    if [nodes, gpus, training_servers, cluster].count(None) != 3:
        raise BadInputError(
            "The cluster's size is not clear.",
            remedy="Give one of --nodes FILE, --gpus N, --training-servers N or the lake's --cluster NAME.",
        )
    policies = names_of(policy)
    known_rules = (options.rules(source_format) for options in of_parts)
    rule_set = rules or next((name for name in known_rules if name is not None), "default")
    companions = [options.companion(source_format, seed) for options in of_parts]
    settings = by_policy(named_values(setting, "--setting", "lucid.sharing=apathetic"))
    for options in of_parts:
        settings = options.policy_settings(settings, policies, rule_set)
    settings = with_site(settings, policies, site, lake_or_default(lake) if cluster else None, cluster)
    if predict_by is not None and predict_by not in PREDICT_BY:
        raise UnknownNameError("run times to predict by", predict_by, PREDICT_BY)
    predict = predict or predict_by is not None
    if (singles is None) != (pairs is None):
        raise BadInputError("Colocation needs both measurements.", remedy="Give --singles and --pairs.")
    with progress_reporter() as progress:
        report = simulate_log(
            LogToReplay(
                LogFile(
                    str(jobs),
                    source_format,
                    parse_time(start, "--start"),
                    parse_time(end, "--end"),
                    time_zone,
                    warm_up_days_of(load_rules(rule_set), cold=cold),
                ),
                ClusterSize.asked(text_of(nodes), gpus, gpus_per_node, training_servers),
                ClusterEvents(
                    lake_uri=lake_or_default(lake) if cluster else "",
                    lake_cluster=cluster,
                    cpu_cores_per_node=cpu_cores_per_node,
                    failures_path=failures,
                    failure_mtbf_hours=failure_mtbf_hours,
                    failure_repair_hours=failure_repair_hours,
                ),
                rules=load_rules(rule_set),
                singles_path=singles,
                pairs_path=pairs,
                speed_ups_path=speed_ups,
                elastic_min_gpus=elastic,
                estimates=EstimateSource(
                    estimates, named_values(estimate_setting, "--estimate-setting", "rolling_weight=1")
                ),
                seed=seed,
                companions=tuple(each for each in companions if each is not None),
                withdrawn=withdrawn,
            ),
            policies,
            out,
            settings=settings,
            predict=predict,
            predict_by=predict_by,
            watching=Watching(
                plot=plot,
                timeline=timeline or bool(timeline_from or timeline_until),
                timeline_from=parse_time(timeline_from, "--timeline-from"),
                timeline_until=parse_time(timeline_until, "--timeline-until"),
                timeline_slices=timeline_slices,
                waits=waits,
                why=tuple(dict.fromkeys(why or ())),
            ),
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


def with_site(
    settings: dict[str, dict[str, object]],
    policies: Sequence[str],
    site: Path | None,
    lake_uri: str | None,
    cluster: str | None,
) -> dict[str, dict[str, object]]:
    """Return the settings of policies with what a site.toml declares among those of the policy `site`.

    Without a file it is what the lake keeps of the cluster, if that is replayed.
    """
    if site is None and (SITE_POLICY not in policies or cluster is None or lake_uri is None):
        return settings
    from cluster_logs.site.site_file import read_site, site_data
    from cluster_logs.site.stored_site import stored_site

    if site is not None and SITE_POLICY not in policies:
        raise BadInputError(
            f"--site {site} is given, and no policy replays it.", remedy=f"Give --policy {SITE_POLICY}, too."
        )
    rules = read_site(site) if site is not None else stored_site(lake_uri or "", cluster or "")
    if rules is None:
        return settings
    declared = {"site": site_data(rules)}
    return {**settings, SITE_POLICY: {**settings.get(SITE_POLICY, {}), **declared}}


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(cls=variadic("--policy", "--setting", "--why", *variadic_of("simulate")))(simulate)
