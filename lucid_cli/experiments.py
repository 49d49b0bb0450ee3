"""The commands of `experiments/`, found by entry point: they may not be installed."""

from importlib.metadata import entry_points

import typer

from foundation.errors import NotFoundError

GROUP = "lucid.commands"
COMMANDS = {
    "evaluate": "Each model beside its rivals.",
    "reproduce": "A paper's evaluation as one command.",
    "replay-updates": "What retraining monthly, weekly or daily buys over a log.",
}


def register_experiments(app: typer.Typer) -> None:
    """Add the research commands; one whose package is missing says so when it is called."""
    installed = {entry.name: entry for entry in entry_points(group=GROUP)}
    for name, meaning in COMMANDS.items():
        if name in installed:
            installed[name].load()(app)
        else:
            _register_missing(app, name, meaning)


def _register_missing(app: typer.Typer, name: str, meaning: str) -> None:
    @app.command(
        name,
        help=f"{meaning} Needs the experiments, which are not installed.",
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    )
    def missing() -> None:
        raise NotFoundError(
            f"`lucid {name}` belongs to the experiments, and they are not installed.",
            remedy="Install them from a checkout: pip install ./experiments",
        )
