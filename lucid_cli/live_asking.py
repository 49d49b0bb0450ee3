"""Commands that ask a live scheduler: which one, and how its times are shown."""

from collections.abc import Callable
from datetime import datetime
from inspect import Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer


def asking(command: Callable[..., None]) -> Callable[..., None]:
    """Make a question of a command: it is given the service, and takes the options that say which."""

    def asked(
        cluster: Annotated[
            str | None,
            typer.Option("--cluster", metavar="NAME", help="Which live scheduler; default: the only one."),
        ] = None,
        state: Annotated[
            Path | None,
            typer.Option("--state", metavar="DIR", help="Its state folder; default: .lucid/live/CLUSTER."),
        ] = None,
        url: Annotated[
            str | None,
            typer.Option("--url", metavar="URL", help="Ask there, for instance through an ssh tunnel."),
        ] = None,
        token_file: Annotated[
            Path | None, typer.Option("--token-file", metavar="FILE", help="The token for --url.")
        ] = None,
        **own: Any,
    ) -> None:
        from live_scheduler.service.asking import open_caller
        from pipeline import settings

        live_dir = settings.state_dir() / "live"
        with open_caller(live_dir, cluster=cluster, folder=state, url=url, token_file=token_file) as caller:
            command(caller, **own)

    _, *own = signature(command).parameters.values()
    *service, _ = signature(asked).parameters.values()
    # The command line is read off the signature: the question's own words first, `--json` last.
    together = [*own[:-1], *service, own[-1]]
    asked.__signature__ = Signature(together)  # type: ignore[attr-defined]
    asked.__annotations__ = {each.name: each.annotation for each in together}
    asked.__name__, asked.__doc__ = command.__name__, command.__doc__
    return asked


def moment_here(at_s: float | None) -> str:
    """Return a time of day as it is called here, a dash for none."""
    return "–" if at_s is None else f"{datetime.fromtimestamp(at_s).astimezone():%Y-%m-%d %H:%M:%S %Z}"
