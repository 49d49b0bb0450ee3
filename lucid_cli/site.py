"""`lucid site`: the scheduling policy of a site, declared for replays."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foundation.errors import BadInputError
from foundation.site import Site
from lucid_cli.options import (
    ClusterOption,
    EndOption,
    LakeOption,
    LogFormatOption,
    NodesOption,
    OnePoolOption,
    SizeOfNodesOption,
    StartOption,
    TimeZoneOption,
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

if TYPE_CHECKING:
    from cluster_logs.slurm_site.reading import SiteReading
    from simulator.wait_fidelity.grade import WaitGrade

SiteOption = Annotated[Path | None, file_option("What the site declares, as `lucid site read` writes it.")]

app = typer.Typer(help="The scheduling policy of a site, declared for replays.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """The scheduling policy of a site, declared for replays."""


@app.command()
def read(
    out: Annotated[Path, typer.Option(metavar="FILE", help="The site.toml to write; people may edit it.")],
    slurm_conf: Annotated[
        Path | None, file_option("The site's slurm.conf; the files that it includes lie where it says.")
    ] = None,
    assoc: Annotated[Path | None, file_option("What `sacctmgr -P show assoc tree` prints.")] = None,
    qos: Annotated[Path | None, file_option("What `sacctmgr -P show qos` prints.")] = None,
    live: Annotated[bool, typer.Option("--live", help="Ask the Slurm of this machine instead.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Read how a Slurm site schedules into a site.toml, and say which of its keys the replay leaves out."""
    from pipeline.ingest.site_reading import read_live_site, read_site_files

    if live == (slurm_conf is not None):
        raise BadInputError(
            "--live and --slurm-conf are both given." if live else "No source of a site is named.",
            remedy="Give one of --slurm-conf FILE and --live.",
        )
    if live and (assoc or qos):
        raise BadInputError(
            "--live asks sacctmgr itself: --assoc and --qos are not for it.", remedy="Leave them out."
        )
    site = (
        read_live_site(out) if live else read_site_files(out, str(slurm_conf), text_of(assoc), text_of(qos))
    )
    document = {"modelled": list(site.modelled), "ignored": to_jsonable(site.ignored)}
    show(document, as_json=as_json, people=lambda: _print(site, out))


def _print(site: "SiteReading", out: Path) -> None:
    rules = site.rules
    print_facts(
        {
            "cluster": rules.name or None,
            "partitions": len(rules.partitions),
            "kinds of nodes": len(rules.nodes),
            "QOS": len(rules.qos),
            "accounts": len(rules.accounts),
            "users": len(rules.users),
            "reservations": len(rules.reservations),
            "keys replayed": ", ".join(site.modelled),
            "written": str(out),
        },
        title="Site",
    )
    if site.ignored:
        print_table(
            to_jsonable(site.ignored), title="Read, and not replayed", columns=("key", "value", "effect")
        )


@app.command()
def keep(
    site: Annotated[Path, file_option("What the site declares, as `lucid site read` writes it.")],
    cluster: ClusterOption,
    lake: LakeOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Keep a site.toml for a cluster in the lake, where the gate, what-if and plan find it."""
    from cluster_logs.lake import Lake
    from cluster_logs.site.site_file import read_site
    from cluster_logs.site.stored_site import store_site

    lake_uri = lake_or_default(lake)
    document = {"cluster": cluster, "kept": store_site(read_site(site), lake_uri, cluster)}
    known = Lake(lake_uri).clusters()
    if cluster not in known:
        say(f"The lake has no jobs of {cluster!r} yet; it has: {', '.join(known) or 'none'}.")
    show(document, as_json=as_json, people=lambda: print_facts(document, title="Site"))


@app.command()
def grade(
    cluster: Annotated[
        str | None, typer.Option(metavar="NAME", help="A cluster in the lake: its jobs and its nodes.")
    ] = None,
    lake: LakeOption = None,
    jobs: Annotated[Path | None, file_option("Or: a log file.")] = None,
    source_format: LogFormatOption = None,
    nodes: NodesOption = None,
    gpus: OnePoolOption = None,
    gpus_per_node: SizeOfNodesOption = None,
    start: StartOption = None,
    end: EndOption = None,
    time_zone: TimeZoneOption = None,
    site: SiteOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Replay a log as its site schedules it, and grade the waits that come of it beside those of the log."""
    from cluster_logs.site.site_file import read_site
    from pipeline.replay.cluster_events import ClusterSize
    from pipeline.replay.log_file import LogFile
    from pipeline.replay.site_grade import grade_cluster, grade_log

    _check_one_log(cluster, jobs, source_format, sized=nodes is not None or gpus is not None)
    declared = None if site is None else read_site(site)
    begins, ends = parse_time(start, "--start"), parse_time(end, "--end")
    with progress_reporter() as progress:
        if cluster is not None:
            found = grade_cluster(
                Site(lake=lake_or_default(lake), cluster=cluster, progress=progress),
                begins,
                ends,
                declared=declared,
            )
        else:
            log = LogFile(str(jobs), str(source_format), begins, ends, time_zone)
            size = ClusterSize.asked(text_of(nodes), gpus, gpus_per_node)
            found = grade_log(log, size, declared, progress=progress)
    show(found.to_data(), as_json=as_json, people=lambda: _print_grade(found))


def _check_one_log(cluster: str | None, jobs: Path | None, source_format: str | None, *, sized: bool) -> None:
    if (cluster is None) == (jobs is None):
        raise BadInputError(
            "No log is named."
            if cluster is None
            else f"--cluster {cluster} and --jobs {jobs} are both given.",
            remedy="Give one of --cluster NAME and --jobs FILE.",
        )
    if jobs is not None and (source_format is None or not sized):
        raise BadInputError(
            f"--jobs {jobs} needs a format and the nodes that it ran on.",
            remedy="Add --format F, and --nodes FILE or --gpus N.",
        )
    if cluster is not None and sized:
        raise BadInputError(
            f"--cluster {cluster} has its nodes in the lake.", remedy="Leave out --nodes and --gpus."
        )


def _print_grade(found: "WaitGrade") -> None:
    from simulator.wait_fidelity.grade import RULE

    rows = [
        {
            "virtual_cluster": each.group,
            "jobs": each.jobs,
            "mean_s_logged": each.logged.mean,
            "mean_s_replayed": each.replayed.mean,
            "p90_s_logged": each.logged.p90,
            "p90_s_replayed": each.replayed.p90,
            "within_x2_pct": each.within_x2_pct,
        }
        for each in found.waits
    ]
    if rows:
        print_table(rows, title=f"Waits under {found.order}")
    print_lines([found.sentence])
    if found.explains:
        print_lines(
            ["What explains the difference (shares overlap):", *(each.sentence for each in found.explains)]
        )
    if found.not_modelled:
        print_lines(["Read of the site, and not replayed:", *found.not_modelled])
    print_lines([RULE])
