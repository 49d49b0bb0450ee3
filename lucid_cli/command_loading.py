"""Commands that are imported when they are called: the program's list of them costs none of their imports."""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from foundation.parts import Command, installed_parts, lacking, missing_part
from lucid_cli.command_list import LISTED


@cache
def listed_commands() -> tuple[Command, ...]:
    """Return the program's own commands, those of parts, and those of parts that are not installed."""
    missing = [
        Command(what.removeprefix("lucid "), "", str(error))
        for what, error in lacking().items()
        if what.startswith("lucid ")
    ]
    return (*LISTED, *(command for part in installed_parts() for command in part.commands), *missing)


class LoadedCommands(Mapping[str, Any]):
    """The program's commands by name; one is imported and made when it is asked for."""

    def __init__(self, listed: tuple[Command, ...]) -> None:
        self._listed = {each.name: each for each in listed if " " not in each.name}
        self._within = [each for each in listed if " " in each.name]
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            made = _made_of(self._listed[name])
            for each in self._within:
                group, _, word = each.name.partition(" ")
                if group in made:
                    made[group].commands[word] = _made_of(each)[word]
            self._made |= made
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._listed)

    def __len__(self) -> int:
        return len(self._listed)


def _made_of(listed: Command) -> Mapping[str, Any]:
    """The command, and others that its module registers with it."""
    app = typer.Typer()
    if not listed.module:
        _register_missing(app, listed)
    else:
        try:
            module = import_module(listed.module)
        except ModuleNotFoundError as error:
            missing = missing_part(error, f"`lucid {listed.name}`")
            if missing is None:
                raise
            raise missing from error
        if hasattr(module, "register"):
            module.register(app)
        else:
            app.add_typer(module.app, name=listed.name)
    return typer.main.get_group(app).commands


def _register_missing(app: typer.Typer, listed: Command) -> None:
    """Add a command that says which part brings it when it is called."""

    @app.command(
        listed.name.rpartition(" ")[2],
        help=listed.help,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    )
    def missing() -> None:
        raise lacking()[f"lucid {listed.name}"]


class ProgramGroup(TyperGroup):
    """The group of all commands: lists them by their words, and loads the one that is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = LoadedCommands(listed_commands())

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the commands' names, in the list's order."""
        return list(self.commands)

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | None:
        """Return a command as help pages and completion show it: its name and words."""
        for each in listed_commands():
            if each.name == cmd_name:
                return TyperCommand(each.name, help=each.help)
        return None

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the command that is called, loaded, with its name and the words that follow."""
        name, found, rest = super().resolve_command(ctx, args)
        return name, found and self.commands[found.name], rest
