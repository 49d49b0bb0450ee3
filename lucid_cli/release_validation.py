"""`lucid release validate`: what the gate says of a release."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foundation.errors import ReleaseRefusedError
from foundation.exit_codes import REFUSED
from foundation.site import Site
from lucid_cli.option_groups import with_options
from lucid_cli.options import (
    AsOfOption,
    LakeOption,
    ReleasedCluster,
    ReleaseVersionOption,
    folder_option,
    lake_or_default,
)
from lucid_cli.output import JsonFlag, print_facts, progress_reporter, show
from lucid_cli.setting_pairs import named_values
from lucid_cli.verdict_output import print_verdict_tables

if TYPE_CHECKING:
    from pipeline.validation.release_validation import Validation


@with_options(ReleasedCluster)
def validate(
    released: ReleasedCluster,
    lake: LakeOption = None,
    version: ReleaseVersionOption = None,
    hold_out_days: Annotated[
        int | None,
        typer.Option(min=1, help="Last days of the log to replay; default: as the release was built."),
    ] = None,
    as_of: AsOfOption = None,
    rule: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="What if the gate went by this rule: a study, no verdict; see docs/gate.md.",
        ),
    ] = None,
    job_types: Annotated[
        str,
        typer.Option(help="Profiles that the log lacks: drawn from measured ones, or log (never colocated)."),
    ] = "drawn",
    out: Annotated[Path | None, folder_option("Also write tables and plots here.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Replay the held-out window with challenger, champion and rivals; exit code 2 when the gate refuses.

    --json says the release as `show` does, with its verdict, and beside that what was decided.
    """
    from pipeline.release.release_settings import gate_settings
    from pipeline.training.windows import read_as_of
    from pipeline.validation.held_out_days import held_out_of
    from pipeline.validation.release_validation import validate_release

    lake_uri = lake_or_default(lake)
    tracking, cluster = released.find()
    held_out = held_out_of(
        Site(lake_uri, tracking, cluster), version, days=hold_out_days, as_of=read_as_of(as_of)
    )
    with progress_reporter() as progress:
        validation = validate_release(
            Site(lake_uri, tracking, cluster, progress),
            version=version,
            held_out=held_out,
            settings=gate_settings(named_values(rule, "--rule", "least_jobs=100"), job_types),
            out_dir=out,
        )

    verdict = validation.verdict

    def people() -> None:
        print_verdict_tables(verdict.to_dict())
        word = "study" if verdict.study else "verdict"
        print_facts({"approved": verdict.approved, word: verdict.sentence, "MLflow": validation.mlflow_path})

    document = _judged(tracking, cluster, validation) if as_json else None
    show(document, as_json=as_json, people=people)
    if not verdict.approved:
        raise typer.Exit(REFUSED)


def _judged(tracking_uri: str, cluster: str, validation: "Validation") -> dict[str, Any]:
    """The release that was judged, as `lucid release show` says it, and beside it what was decided.

    They differ for a study, which leaves the release's verdict as it was.
    """
    from lucid_models.releases.lifecycle import show_release
    from lucid_models.releases.manifest import release_name

    decided, version = validation.verdict.to_dict(), int(validation.verdict.subject["release"])
    release: dict[str, Any]
    try:
        release = show_release(tracking_uri=tracking_uri, cluster=cluster, version=version).to_data()
    except ReleaseRefusedError:  # its manifest cannot be trusted, and it was refused for that
        unread = {"alias": None, "models": {}, "settings": {}, "verdict": decided}
        release = {"name": release_name(cluster), "version": version, "cluster": cluster, **unread}
    return decided | release | {"mlflow_path": validation.mlflow_path}


def register(app: typer.Typer) -> None:
    """Add the command to the group."""
    app.command()(validate)
