"""Groups of options that several commands take: declared once, as the parameters of one function."""

from collections.abc import Callable
from inspect import Parameter, Signature, signature
from typing import Any


def with_options(*groups: Callable[..., Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command take the options of `groups` beside its own: its first parameters are what they make.

    Decorators of this kind may be stacked: the nearest to the command makes its first parameters. On the help
    page the command's own options come first, then those of the groups in their order, and `--json` last.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = list(signature(command).parameters.values())[len(groups) :]
        fields = [signature(group).parameters for group in groups]

        def merged(*outer: Any, **values: Any) -> None:
            made = [
                group(**{name: values.pop(name) for name in names})
                for group, names in zip(groups, fields, strict=True)
            ]
            command(*made, *outer, **values)

        shared = [each for names in fields for each in names.values()]
        parameters = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in (*own, *shared)]
        parameters.sort(key=lambda each: each.name == "as_json")
        merged.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        merged.__annotations__ = {each.name: each.annotation for each in parameters}
        merged.__name__, merged.__doc__ = command.__name__, command.__doc__
        return merged

    return decorate
