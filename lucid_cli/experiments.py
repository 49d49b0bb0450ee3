"""The commands of `experiments/`, found by entry point: they may not be installed."""

from importlib.util import find_spec

import typer

from foundation.errors import NotFoundError

GROUP = "lucid.commands"
LACKING = "Needs the experiments, which are not installed."


def are_installed() -> bool:
    """Whether the experiments are there; asked for the list of commands, which reads no entry points."""
    return find_spec("experiments") is not None


def register_experiment(app: typer.Typer, name: str, meaning: str) -> None:
    """Add a research command; one whose package is missing says so when it is called."""
    from importlib.metadata import entry_points

    installed = entry_points(group=GROUP, name=name)
    if installed:
        installed[name].load()(app)
        return

    @app.command(
        name,
        help=f"{meaning} {LACKING}",
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    )
    def missing() -> None:
        raise NotFoundError(
            f"`lucid {name}` belongs to the experiments, and they are not installed.",
            remedy="Install them from a checkout: pip install ./experiments",
        )
