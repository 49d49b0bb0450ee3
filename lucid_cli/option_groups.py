"""Groups of options that several commands take: declared once, as the parameters of one function."""

from collections.abc import Callable
from inspect import Parameter, Signature, signature
from typing import Any


def with_options(group: Callable[..., Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command take the options of `group` beside its own: its first parameter is what they make.

    Several groups may be stacked: the nearest to the command makes its first parameter. On the help page the
    command's own options come first, and `--json` last.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        _, *own = signature(command).parameters.values()
        shared = signature(group).parameters

        def merged(*outer: Any, **values: Any) -> None:
            made = group(**{name: values.pop(name) for name in shared})
            command(made, *outer, **values)

        parameters = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in (*own, *shared.values())]
        parameters.sort(key=lambda each: each.name == "as_json")
        merged.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        merged.__annotations__ = {each.name: each.annotation for each in parameters}
        merged.__name__, merged.__doc__ = command.__name__, command.__doc__
        return merged

    return decorate
