"""`lucid status`: how everything stands."""

import typer

from foundation.site import Site
from lucid_cli.options import LakeOption, TrackingOption, lake_or_default, tracking_or_default
from lucid_cli.output import JsonFlag, print_facts, print_table, say, show, to_jsonable


def status(lake: LakeOption = None, tracking_uri: TrackingOption = None, as_json: JsonFlag = False) -> None:
    """Say of each cluster which release is live, what runs and what waits for approval; and what of the stack
    on this machine is up.
    """
    from pipeline import settings
    from pipeline.overview.standing import read_standing

    standing = read_standing(
        Site(lake=lake_or_default(lake), registry=tracking_or_default(tracking_uri)),
        state_dir=settings.state_dir(),
    )
    document = to_jsonable(standing)

    def people() -> None:
        rows = [
            cluster
            | {
                "running": _in_words(cluster["running"], "dag_id"),
                "approvals": _in_words(cluster["approvals"], "version"),
            }
            for cluster in document["clusters"]
        ]
        columns = ("name", "champion", "challenger", "running", "approvals")
        if rows:
            print_table(rows, title="Clusters", columns=columns)
        else:
            say("There is no cluster yet: `lucid ingest` or `lucid synthesize` makes one.")
        stack = document["stack"]
        parts = [name for name, part in stack["processes"].items() if part.get("pid")]
        print_facts({**stack, "processes": parts}, title="Stack")
        for problem in document["problems"]:
            say(problem)

    show(document, as_json=as_json, people=people)


def _in_words(found: list[dict[str, object]] | None, name: str) -> str | None:
    return None if found is None else ", ".join(str(each[name]) for each in found) or "none"


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command()(status)
