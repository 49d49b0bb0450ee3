"""`lucid backup` and `lucid restore`: the state of an installation on one machine."""

from pathlib import Path
from typing import Annotated

import typer

from lucid_cli.options import LakeOption, existing_file, lake_or_default
from lucid_cli.output import JsonFlag, progress_reporter, show_facts


def backup(
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="The archive: .tar, .tar.gz or .tar.xz.")
    ],
    lake: LakeOption = None,
    with_keys: Annotated[bool, typer.Option("--with-keys", help="Private signing keys, too.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Back up the state below LUCID_STATE_DIR into one file, also while everything runs. The file holds
    secrets: logins, and the key of what Airflow keeps encrypted.
    """
    from local_stack.backup import back_up
    from pipeline import settings

    with progress_reporter() as progress:
        written = back_up(
            settings.state_dir(),
            out,
            lake_uri=lake_or_default(lake),
            with_keys=with_keys,
            progress=progress,
        )
    show_facts(written, as_json=as_json, title="Backed up")


def restore(
    archive: Annotated[
        Path, typer.Argument(metavar="FILE", help="What `lucid backup` wrote.", callback=existing_file)
    ],
    replace: Annotated[
        bool, typer.Option("--replace", help="Also where there is a state, which is moved aside.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Restore a backup into the folder LUCID_STATE_DIR, which must be empty, once every file of it was
    verified. `make up` then migrates databases that older versions wrote, and starts.
    """
    from local_stack.backup import restore as restore_state
    from pipeline import settings

    restored = restore_state(archive, settings.state_dir(), replace=replace)
    show_facts(restored, as_json=as_json, title="Restored")


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.command()(backup)
    app.command()(restore)
