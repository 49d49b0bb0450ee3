"""Commands that are imported when they are called: the program's list of them costs none of their imports."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from lucid_cli.command_list import LISTED, Listed
from lucid_cli.experiments import LACKING, are_installed, register_experiment


class LoadedCommands(Mapping[str, Any]):
    """The program's commands by name; one is imported and made when it is asked for."""

    def __init__(self, listed: tuple[Listed, ...]) -> None:
        self._listed = {each.name: each for each in listed}
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made |= _made_of(self._listed[name])
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._listed)

    def __len__(self) -> int:
        return len(self._listed)


def _made_of(listed: Listed) -> Mapping[str, Any]:
    """The command, and others that its module registers with it."""
    app = typer.Typer()
    if listed.module is None:
        register_experiment(app, listed.name, listed.help)
    else:
        module = import_module(listed.module)
        if hasattr(module, "register"):
            module.register(app)
        else:
            app.add_typer(module.app, name=listed.name)
    return typer.main.get_group(app).commands


class ProgramGroup(TyperGroup):
    """The group of all commands: lists them by their words, and loads the one that is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = LoadedCommands(LISTED)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the commands' names, in the list's order."""
        return list(self.commands)

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | None:
        """Return a command as help pages and completion show it: its name and words."""
        for each in LISTED:
            if each.name == cmd_name:
                lacking = "" if each.module or are_installed() else f" {LACKING}"
                return TyperCommand(each.name, help=each.help + lacking)
        return None

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the command that is called, loaded, with its name and the words that follow."""
        name, found, rest = super().resolve_command(ctx, args)
        return name, found and self.commands[found.name], rest
