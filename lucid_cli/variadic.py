"""Options that take several values after one name: `--policy fifo sjf lucid`."""

from collections.abc import Sequence
from typing import Any

from typer.core import TyperCommand


def repeat_options(arguments: Sequence[str], names: Sequence[str]) -> list[str]:
    """Write `--name a b c` as `--name a --name b --name c`; everything else stays as it is.

    The values end at the next word that begins with a dash. Only for commands without positional arguments.
    """
    written: list[str] = []
    following: str | None = None  # the option that may take further values
    owed = False  # whether the next word is the value of an option that was just named
    for i, word in enumerate(arguments):
        if word == "--":
            return [*written, *arguments[i:]]
        name, sign, _ = word.partition("=")
        if name in names:
            following, owed = name, not sign
            written.append(word)
        elif owed or following is None or word.startswith("-"):
            owed = False
            if word.startswith("-"):
                following = None
            written.append(word)
        else:
            written += [following, word]
    return written


def variadic(*names: str) -> type[TyperCommand]:
    """Return a command class for which these options take one or more values each."""

    class VariadicCommand(TyperCommand):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            return super().parse_args(ctx, repeat_options(args, names))

    return VariadicCommand


def names_of(values: Sequence[str]) -> list[str]:
    """Return names given one by one or with commas between them, each once, in order."""
    names = [name.strip() for value in values for name in value.split(",")]
    return list(dict.fromkeys(name for name in names if name))
