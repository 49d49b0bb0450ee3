"""Options that installed parts add to commands of the core.

`Part.options` names, by command, a frozen dataclass; its fields are the options (`option_groups.py`). What
it must offer besides is here, a base class for each command that takes such options.
"""

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, ClassVar

import typer

from foundation.errors import BadInputError
from foundation.parts import at_place, installed_parts
from lucid_cli.option_groups import with_options
from lucid_cli.setting_pairs import named_values

ModelVersionOption = Annotated[int | None, typer.Option(min=1, help="Model version; default: the newest.")]


class PartOptions:
    """Options of a part. `variadic`: those of them that take several values after one name."""

    variadic: ClassVar[tuple[str, ...]] = ()


class IngestOptions(PartOptions):
    """Options of `lucid ingest`."""

    def beside(self, source_format: str) -> object:
        """Return what the part's format asks beside its file; None for another format."""
        return None


class ReplayOptions(PartOptions):
    """Options of `lucid simulate`. `title` and `columns`: the table of what came of the companion."""

    title: ClassVar[str] = ""
    columns: ClassVar[tuple[str, ...]] = ()

    def rules(self, source_format: str) -> str | None:
        """Return the rule set that goes with a log's format, where the part knows it."""
        return None

    def companion(self, source_format: str, seed: int) -> Any:
        """Return what acts beside the policy in the replay; None where the options ask for nothing.

        Raises BadInputError for half of the options.
        """
        return None

    def policy_settings(
        self, settings: Mapping[str, Mapping[str, object]], policies: Sequence[str], rules: str
    ) -> dict[str, dict[str, object]]:
        """Return the policies' settings with those that the options say."""
        return {name: dict(values) for name, values in settings.items()}


class PlanOptions(PartOptions):
    """Options of `lucid plan`."""

    def of_log(self) -> dict[str, Any]:
        """Return what lies beside the log, as `LogRequest.of_parts` has it."""
        return {}

    def asked(self) -> dict[str, Any]:
        """Return what a plan is asked about the part, as `PlanSettings.asked` has it."""
        return {}


class SweepOptions(PartOptions):
    """Options of `lucid sweep`. `figures`: columns of the table that are shown where it has the last."""

    figures: ClassVar[tuple[str, ...]] = ()

    def changes(self, spec: Any) -> dict[str, Any]:
        """Return fields of a `SweepSpec` that the options say, in place of those of `spec`."""
        return {}


class ReleaseOptions(PartOptions):
    """Options of `lucid release build`: of a field of the manifest, its settings and its model's version.

    `field` names the option of the settings, too (`--FIELD`); `kind` is the model's; `example`: of a setting.
    """

    field: ClassVar[str]
    kind: ClassVar[str]
    example: ClassVar[str]

    def version(self) -> int | None:
        """Return the version of the model; None: the newest, or none."""
        raise NotImplementedError

    def settings(self) -> dict[str, Any] | None:
        """Return the settings that were chosen; None: the release goes without.

        Raises BadInputError for a version of a model that the release does not ask.
        """
        option = f"--{self.field.replace('_', '-')}"
        pairs: list[str] | None = getattr(self, self.field)
        if pairs:
            return named_values(pairs, option, self.example)
        if self.version() is not None:
            raise BadInputError(
                f"A model of {self.kind} is of no use to a release that does not ask it.",
                remedy=f"Add {option} {self.example}.",
            )
        return None


def groups_of(command: str) -> list[Any]:
    """Return the groups of options that installed parts add to a command, by the parts' names."""
    return [at_place(part.options[command]) for part in installed_parts() if command in part.options]


def with_part_options(command: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command take the options of installed parts: its first parameter is what they make, in order."""
    groups = groups_of(command)
    fields = [signature(group).parameters for group in groups]

    def made(**values: Any) -> tuple[Any, ...]:
        return tuple(
            group(**{name: values[name] for name in names})
            for group, names in zip(groups, fields, strict=True)
        )

    options = [each.replace(kind=Parameter.KEYWORD_ONLY) for names in fields for each in names.values()]
    made.__signature__ = Signature(options)  # type: ignore[attr-defined]
    return with_options(made)


def variadic_of(command: str) -> tuple[str, ...]:
    """Return those options of parts that take several values after one name."""
    return tuple(name for group in groups_of(command) for name in group.variadic)
