"""`lucid prune`: what is past its retention goes."""

from typing import Annotated

import typer

from foundation.errors import LucidError
from lucid_cli.options import LakeOption, TrackingOption, lake_or_default, tracking_or_default
from lucid_cli.output import JsonFlag, print_table, say, show, to_jsonable


def prune(
    lake: LakeOption = None,
    tracking_uri: TrackingOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would go.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Remove what is past its retention (LUCID_RETENTION): releases, model versions and runs in MLflow, files
    of the lake, pages and logs of tasks below the state folder. The DAG apply_retention does the same daily.
    """
    from foundation.retention_settings import retention_settings
    from local_stack.stack_config import StackConfig
    from pipeline import settings
    from pipeline.retention.prune import Installation
    from pipeline.retention.prune import prune as prune_installation

    state_dir = settings.state_dir()
    pruned = prune_installation(
        Installation(
            tracking_or_default(tracking_uri),
            lake_or_default(lake),
            state_dir,
            StackConfig(state_dir).airflow_home / "logs",
        ),
        retention_settings(),
        dry_run=dry_run,
    )
    kinds = {each.kind: to_jsonable(each) for each in pruned}
    document = {"dry_run": dry_run, "kinds": {name: without_kind(row) for name, row in kinds.items()}}

    def people() -> None:
        columns = ("kind", "kept", "removed", "bytes")
        print_table(list(kinds.values()), title="Would go" if dry_run else "Went", columns=columns)
        for each in pruned:
            for remark in each.remarks:
                say(f"{each.kind}: {remark}")

    show(document, as_json=as_json, people=people)
    problems = [f"{each.kind}: {each.problem}" for each in pruned if each.problem is not None]
    if problems:
        raise LucidError(" ".join(problems))


def without_kind(row: dict[str, object]) -> dict[str, object]:
    """A kind's row for a document with the kinds as keys."""
    return {name: value for name, value in row.items() if name != "kind"}


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command()(prune)
