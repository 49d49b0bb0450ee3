"""`lucid live status`, `queue`, `explain`, `when`: what a live scheduler answers; `serve` runs one."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foundation.human_times import human_duration, moment_here, time_ago
from lucid_cli.live_asking import asking
from lucid_cli.live_run import (
    ClusterOption,
    PolicyOption,
    ReleaseOption,
    SettingsOption,
    TrustOption,
    cluster_finder,
)
from lucid_cli.options import ServerOption
from lucid_cli.output import JsonFlag, print_facts, print_lines, print_table, show

if TYPE_CHECKING:
    from live_scheduler.service import schema
    from live_scheduler.service.asking import ServiceCaller

JobArgument = Annotated[str, typer.Argument(metavar="JOBID", help="A job, or a task of an array (123_4).")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (status, queue, explain, when, serve):
        app.command()(command)


@asking
def status(
    caller: "ServiceCaller",
    as_json: JsonFlag = False,
) -> None:
    """Say how the live scheduler is: its mode, its release, the queues, and what stands in the way."""
    answer = caller.status()
    show(answer.model_dump(mode="json"), as_json=as_json, people=lambda: _print_status(answer))


@asking
def queue(
    caller: "ServiceCaller",
    pool: Annotated[str | None, typer.Option(metavar="NAME", help="This queue only.")] = None,
    first: Annotated[
        int, typer.Option(min=1, metavar="N", help="So many jobs of each queue (people's form).")
    ] = 50,
    as_json: JsonFlag = False,
) -> None:
    """List the queues in the order of the last decision."""
    answer = caller.queue(pool)
    show(answer.model_dump(mode="json"), as_json=as_json, people=lambda: _print_queue(answer, first))


@asking
def explain(
    caller: "ServiceCaller",
    job_id: JobArgument,
    as_json: JsonFlag = False,
) -> None:
    """Say why a job stands where it stands in its queue, and what would bring it forward."""
    answer = caller.explain(job_id)

    def people() -> None:
        print_lines(answer.sentences)
        if answer.would_move_it:
            print_lines(["What would move it:", *(f"- {each}" for each in answer.would_move_it)])

    show(answer.model_dump(mode="json"), as_json=as_json, people=people)


@asking
def when(
    caller: "ServiceCaller",
    job_id: JobArgument,
    as_json: JsonFlag = False,
) -> None:
    """Say when a job is expected to start and to end, who says so, and whether a shorter limit would do."""
    answer = caller.when(job_id)

    def people() -> None:
        print_lines([answer.sentence])
        half = (
            "half of such jobs by" if answer.said_by not in ("", "play_forward") else "half of the plays by"
        )
        rows = [
            {"": what, half: moment_here(p50), "nine in ten by": moment_here(p90)}
            for what, p50, p90 in (
                ("start", answer.start_p50_s, answer.start_p90_s),
                ("end", answer.end_p50_s, answer.end_p90_s),
            )
            if p50 is not None
        ]
        if rows:
            print_table(rows)
        print_lines(answer.remarks)
        if answer.assumptions:
            print_lines(["This assumes:", *(f"- {each}" for each in answer.assumptions)])

    show(answer.model_dump(mode="json"), as_json=as_json, people=people)


def serve(
    cluster: ClusterOption = None,
    settings_file: SettingsOption = None,
    release: ReleaseOption = None,
    policy: PolicyOption = None,
    http_port: Annotated[
        int | None, typer.Option(help="On loopback; 0: any free one (default), -1: none.")
    ] = None,
    trust: TrustOption = None,
    tracking_uri: ServerOption = None,
) -> None:
    """Decide for a scheduler that is not Slurm, which pushes its queue and nodes over HTTP.

    It orders every pushed state by the published release, and learns from the ends that are reported. Where
    it listens is said on standard error and in endpoint.json beside the token; it runs until told to end.
    """
    import logging

    from live_scheduler.assembly import open_releases
    from live_scheduler.live_settings import Mode
    from live_scheduler.service.hosting import LiveService
    from live_scheduler.service.standalone import serve_pushed
    from live_scheduler.service.state_files import TOKEN_FILE
    from live_scheduler.service_manager import stop_when_told
    from live_scheduler.settings_file import read_live_settings, state_folder
    from lucid_cli.output import say
    from pipeline import settings

    stop = stop_when_told()
    overrides: dict[str, Any] = {
        "cluster": cluster,
        "release": release,
        "policy": policy,
        "trust": trust,
        "http_port": http_port,
        # A scheduler that pushes follows the decisions: there is nothing to observe or advise beside it.
        "mode": Mode.CONTROL.value,
    }
    live_settings = read_live_settings(settings_file, find_cluster=cluster_finder(tracking_uri), **overrides)
    logging.getLogger("lucid.live").setLevel(logging.INFO)
    folder = state_folder(settings.state_dir(), live_settings.cluster)
    client = open_releases(settings.server_uri(tracking_uri), live_settings, folder, settings.state_dir())

    def ready(service: LiveService) -> None:
        say(f"Decision service of {live_settings.cluster}: {service.web.url if service.web else 'no port'}.")
        say(f"Token in {folder / TOKEN_FILE}; {client.current.describe()}.")

    try:
        serve_pushed(client, live_settings, folder, stop, ready)
    finally:
        client.close()


def _print_status(answer: "schema.Status") -> None:
    release, latency_s = answer.release, answer.decision_latency_s
    facts = {
        "in charge": "Lucid" if answer.in_charge else "the cluster's own order",
        "mode": answer.mode,
        "policy": answer.policy,
        "release": f"{release.release} ({release.mode})",
        "signed": _signatures_of(release),
        "fetching": release.fetching,
        "problem": answer.problem,
        "release server": _of_release(release),
        "last pass": time_ago(answer.pass_age_s),
        "heartbeat": None if answer.heartbeat_age_s is None else time_ago(answer.heartbeat_age_s),
        "ranked": f"{answer.ranked_jobs:,} jobs, {answer.left_alone_jobs:,} left alone",
        "left as set": ", ".join(
            f"{count:,} {what}"
            for count, what in (
                (answer.set_by_hand_jobs, "by an operator's or a user's hand"),
                (answer.hands_off_jobs, "by hands_off"),
            )
            if count
        )
        or None,
        "decision": None if latency_s is None else f"{1e3 * latency_s:.2f} ms",
        "changes": ", ".join(
            [
                *(f"{count:,} {kind}" for kind, count in answer.asked.items()),
                *([f"{len(answer.refused)} refused"] if answer.refused else []),
                *([f"{answer.deferred:,} put off"] if answer.deferred else []),
            ]
        )
        or "none",
        "agreement": f"{answer.agreed_starts:,} of {answer.starts:,} starts would have been Lucid's by then"
        if answer.starts
        else None,
        "hindsight": None if answer.hindsight is None else _hindsight(answer.hindsight),
        **_of_parts(answer),
        "running since": moment_here(answer.started_s),
    }
    stated = {name: value for name, value in facts.items() if value is not None}
    print_facts(stated, title=f"Live scheduler of {answer.cluster}")
    if answer.partitions:
        print_table([partition.model_dump() for partition in answer.partitions])
    if answer.predictions:
        print_table(
            [
                {
                    "order": each.policy,
                    "release": each.release_version,
                    "virtual cluster": each.virtual_cluster or "all",
                    "jobs": each.jobs,
                    "error %": round(each.mean_error_pct, 1),
                    "P99 %": round(each.p99_error_pct, 1),
                    "ended by P90": f"{each.by_p90:.0%}",
                }
                for each in answer.predictions
            ],
            title="Ends told at submission, of jobs that ended lately",
        )
    for refusal in answer.refused[:10]:
        print_lines([f"refused: {refusal.change} of job {refusal.job_id}: {refusal.why}"])


def _of_parts(answer: "schema.Status") -> dict[str, str]:
    from live_scheduler.capability import capabilities

    said = {part: answer.of_part(name) for name, part in capabilities().items()}
    return {part.title: part.in_words(status) for part, status in said.items() if status is not None}


def _hindsight(found: "schema.Hindsight") -> str:
    change_s = found.regret_against_backfill_s
    amount = f"{human_duration(abs(change_s))} {'less' if change_s < 0 else 'more'}"
    doubt = "" if found.reliable else "; too few jobs to be sure"
    return (
        f"{found.jobs:,} jobs since {moment_here(found.start_s)}: mean JCT {human_duration(found.live_jct_s)}"
        f" by this policy, {amount} than first in first out with backfilling (simulated{doubt})"
    )


def _signatures_of(release: "schema.ReleaseStatus") -> str | None:
    if release.trust != "signed":
        return release.trust
    if release.published is None:
        return None
    if not release.published:
        return "by the judge; it is not published"
    return f"by judge and publisher, number {release.sequence}, until {release.expires}"


def _of_release(release: "schema.ReleaseStatus") -> str:
    contact = "never" if release.contact_age_s is None else time_ago(release.contact_age_s)
    return f"last heard of {contact}" + (f"; {release.problem}" if release.problem else "")


def _print_queue(answer: "schema.QueueAnswer", first: int) -> None:
    print_lines([answer.note])
    for queue in answer.queues:
        if queue.jobs:
            shown = queue.jobs[:first]
            print_table(_queue_rows(shown), title=_shown_of(queue.pool, len(queue.jobs), first))
        if queue.left_alone:
            rows = [{"job": job_id, "left alone because": why} for job_id, why in queue.left_alone.items()]
            print_table(rows[:first], title=_shown_of(f"{queue.pool}, not ranked", len(rows), first))
    if not any(queue.jobs or queue.left_alone for queue in answer.queues):
        print_lines(["No job waits."])


def _queue_rows(jobs: "Sequence[schema.QueuedJob]") -> list[dict[str, object]]:
    rows: list[dict[str, object]] = [
        {
            "place": job.place,
            "job": job.job_id if job.tasks < 2 else f"{job.job_id} ({job.tasks} tasks)",
            "user": job.user,
            "name": job.name,
            "gpus": job.gpus,
            "waited": human_duration(job.waited_s),
            "estimate": None
            if job.estimated_duration_s is None
            else human_duration(job.estimated_duration_s),
        }
        for job in jobs
    ]
    notes = ["starts now" if job.starts_now else "overdue" if job.overdue else "" for job in jobs]
    if any(notes):
        for row, note in zip(rows, notes, strict=True):
            row["note"] = note
    return rows


def _shown_of(title: str, jobs: int, first: int) -> str:
    return title if jobs <= first else f"{title}: the first {first} of {jobs:,} jobs (--first)"
