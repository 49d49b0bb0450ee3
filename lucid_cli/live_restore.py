"""`lucid live restore` and `lucid live watch`: the way back to the cluster's own order."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foundation.exit_codes import NOT_REACHED
from lucid_cli.live_run import ClusterOption, SettingsOption
from lucid_cli.output import JsonFlag, say, show

if TYPE_CHECKING:
    from live_scheduler.live_settings import LiveSettings


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(restore)
    app.command()(watch)


def restore(
    cluster: ClusterOption = None,
    settings_file: SettingsOption = None,
    everything: Annotated[
        bool,
        typer.Option(
            "--all", help="Give back all waiting jobs, also when the record of touched ones is lost."
        ),
    ] = False,
    limit_s: Annotated[float, typer.Option(min=0.0, help="How long to go on trying.")] = 60.0,
    wait: Annotated[
        bool,
        typer.Option(
            help="See that the cluster does not undo it, which takes two of its scheduler's cycles; or leave"
            " that to a process in the background."
        ),
    ] = True,
    as_json: JsonFlag = False,
) -> None:
    """End the live scheduler and return the cluster's own order, as if it had never been there.

    Slurm's backfill may write priorities back that it read before: all jobs are looked at again until two of
    its cycles have ended. Exit code 0: all is back; 3: some jobs are not (they are named), or were undone
    again and again, or nodes that a part has changed are not back; 1: the cluster did not answer.
    """
    from live_scheduler.safety.restore_command import restore_cluster

    folder, chosen = _found(cluster, settings_file)
    watched = (lambda _: None) if as_json else (lambda text: say(f"{chosen.cluster}: {text}."))
    done = restore_cluster(folder, chosen, limit_s=limit_s, everything=everything, wait=wait, say=watched)
    result = done.restoration
    document: dict[str, object] = {
        "cluster": chosen.cluster,
        "complete": result.complete,
        "ended_daemon": done.ended_daemon,
        "returned": len(result.returned),
        "sent_home": len(result.sent_home),
        "cleared": len(result.cleared),
        "held": list(result.held),
        "refused": {refusal.change.job_id: refusal.why for refusal in result.refused},
        "left": list(result.left),
        "still_watched": done.unsettled,
    }
    for part in done.parts.values():
        document |= part.document()

    def people() -> None:
        if done.ended_daemon is not None:
            say(f"Ended the live scheduler of {chosen.cluster} (process {done.ended_daemon}).")
        nothing_left = done.ended_daemon is not None and not result.changed
        what = "everything was given back as it ended" if nothing_left else result.describe()
        say(f"{chosen.cluster}: {what}.")
        for refusal in result.refused:
            say(f"  job {refusal.change.job_id}: {refusal.why}")
        for part in done.parts.values():
            if part.changed:
                say(f"{chosen.cluster}: {part.describe()}.")
            for refused in part.refusals():
                say(f"  {refused}")
        if done.unsettled:
            say(f"Not over yet: {done.unsettled}.")

    show(document, as_json=as_json, people=people)
    all_back = result.complete and all(part.complete for part in done.parts.values())
    if not all_back or (wait and done.unsettled):
        raise typer.Exit(NOT_REACHED)


def watch(cluster: ClusterOption = None, settings_file: SettingsOption = None) -> None:
    """Be the dead man's switch: return the cluster's own order when the live scheduler falls silent.

    A live scheduler starts one itself; run this where a service manager ends all that a service started.
    """
    from live_scheduler.safety.dead_mans_switch import run

    folder, chosen = _found(cluster, settings_file)
    run(folder, chosen, stay=True, say=say)


def _found(cluster: str | None, settings_file: Path | None) -> "tuple[Path, LiveSettings]":
    """Return the state folder and the settings of a cluster: those that were used last, if any were."""
    from foundation.errors import LucidError
    from live_scheduler.safety.dead_mans_switch import watch_settings
    from live_scheduler.settings_file import read_live_settings, state_folder
    from pipeline import settings

    read_settings = read_live_settings(settings_file, cluster=cluster)
    folder = state_folder(settings.state_dir(), read_settings.cluster)
    if settings_file is None:
        try:
            return folder, watch_settings(folder)
        except LucidError:  # there are none, or none of this version's
            pass
    return folder, read_settings
