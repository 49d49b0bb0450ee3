"""`lucid site`: the scheduling policy of a site, declared for replays."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foundation.errors import BadInputError
from lucid_cli.options import file_option, text_of
from lucid_cli.output import JsonFlag, print_facts, print_table, show, to_jsonable

if TYPE_CHECKING:
    from cluster_logs.slurm_site.reading import SiteReading

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
