"""Commands that ask a live scheduler: which one."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lucid_cli.option_groups import with_options

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from live_scheduler.service.asking import ServiceCaller


def service_caller(
    cluster: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which live scheduler; default: the only one.")
    ] = None,
    state: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Its state folder; default: .lucid/live/CLUSTER.")
    ] = None,
    url: Annotated[
        str | None, typer.Option(metavar="URL", help="Ask there, for instance through an ssh tunnel.")
    ] = None,
    token_file: Annotated[Path | None, typer.Option(metavar="FILE", help="The token for --url.")] = None,
) -> "AbstractContextManager[ServiceCaller]":
    """Group of options: which live scheduler is asked."""
    from live_scheduler.service.asking import open_caller
    from pipeline import settings

    live_dir = settings.state_dir() / "live"
    return open_caller(live_dir, cluster=cluster, folder=state, url=url, token_file=token_file)


def asking(command: Callable[..., None]) -> Callable[..., None]:
    """Make a question of a command: it is given the service, and takes the options that say which."""

    @wraps(command)
    def ask(opened: "AbstractContextManager[ServiceCaller]", **options: Any) -> None:
        with opened as caller:
            command(caller, **options)

    return with_options(service_caller)(ask)
