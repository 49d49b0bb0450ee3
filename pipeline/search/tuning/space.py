"""What is tuned: the settings of section 4.5, each a short list of values that holds the current one.

Every parameter is a position in its list, so the optimiser sees steps and a trial is plain data. T_prof,
N_prof, C_prof and G_SS are settings of the Lucid policy; the two thresholds are settings of the Packing
Analyze Model, whose tree is trained anew for them. Of a release that runs Lyra what saved time is worth is
tuned, where the log says in which workers jobs run. Of a release with servers on loan the orchestrator's
settings are tuned as well, whichever of the two it runs.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from foundation.errors import BadInputError, check_names
from lucid_models.packing.tree import PackingSettings
from lucid_models.releases.manifest import orders_only
from simulator.loaning.released_loans import ReleasedLoans
from simulator.loaning.settings import LEND
from simulator.policies.lucid import LucidSettings
from simulator.policies.registry import load_policy
from simulator.stages.strategy import SHARING_CAPACITY

Value = int | float | str
Values = Mapping[str, Value]
Thresholds = tuple[float, float]

LOANS = ("headroom", "hysteresis_servers", "lend")
SHARING = ("none", "apathetic", "default")  # by G_SS: nobody, 1, 2
THRESHOLDS = ("medium_from", "tiny_above")
LUCID, LYRA = TUNED_POLICIES = ("lucid", "lyra")
OF_WORKERS = ("value_exponent",)
_TRIED: Mapping[str, tuple[Value, ...]] = {
    "profiling_limit_s": (60.0, 100.0, 150.0, 200.0, 300.0, 450.0, 600.0),
    "profiling_max_gpus": (1, 2, 4, 8, 16),
    "profiling_nodes": (0, 1, 2, 3, 4, 6, 8),
    "borrowed_nodes_max": (0, 2, 4, 8),
    "sharing": SHARING,
    "medium_from": (0.75, 0.80, 0.85, 0.88),
    "tiny_above": (0.90, 0.93, 0.95, 0.97),
    "value_exponent": (0.0, 0.5, 1.0, 1.5, 2.0),
    "headroom": (0.0, 0.01, 0.02, 0.05, 0.10),
    "hysteresis_servers": (0, 1, 2, 4),
    "lend": LEND,
}
_WORDS: Mapping[str, tuple[str, ...]] = {"sharing": SHARING, "lend": LEND}  # from the least to the most
SYMBOLS: Mapping[str, str] = {
    "profiling_limit_s": "T_prof (s)",
    "profiling_max_gpus": "N_prof (GPUs)",
    "profiling_nodes": "C_prof (nodes)",
    "borrowed_nodes_max": "C_prof, borrowed (nodes)",
    "sharing": "G_SS",
    "medium_from": "Medium from",
    "tiny_above": "Tiny above",
    "value_exponent": "value of saved time (exponent)",
    "headroom": "headroom of inference",
    "hysteresis_servers": "hysteresis (servers)",
    "lend": "lend",
}


@dataclass(frozen=True)
class Parameter:
    """One setting: the values to try, ascending, and the one that holds now."""

    name: str
    values: tuple[Value, ...]
    current: Value

    def position(self, value: Value) -> int:
        """Where a value stands in the list."""
        return self.values.index(value)

    @property
    def symbol(self) -> str:
        """The paper's name of it."""
        return SYMBOLS[self.name]


@dataclass(frozen=True)
class SearchSpace:
    """The parameters in the order of the paper; each trial gives every one a value."""

    parameters: tuple[Parameter, ...]

    @property
    def current(self) -> dict[str, Value]:
        """What holds now: trial 0."""
        return {parameter.name: parameter.current for parameter in self.parameters}

    @property
    def lends(self) -> bool:
        """Whether settings of servers on loan are among them."""
        return any(parameter.name in LOANS for parameter in self.parameters)

    @property
    def free(self) -> tuple[Parameter, ...]:
        """The parameters with more than one value."""
        return tuple(parameter for parameter in self.parameters if len(parameter.values) > 1)

    def one_at_a_time(self) -> list[dict[str, Value]]:
        """Trial 0, then each other value of each parameter beside the current ones of all others."""
        others = [
            {**self.current, parameter.name: value}
            for parameter in self.free
            for value in parameter.values
            if value != parameter.current
        ]
        return [self.current, *(values for values in others if thresholds_rise(values))]

    def to_data(self) -> list[dict[str, Any]]:
        """The space as plain values."""
        return [asdict(parameter) | {"values": list(parameter.values)} for parameter in self.parameters]

    @classmethod
    def from_data(cls, data: Sequence[Mapping[str, Any]]) -> "SearchSpace":
        """The space that `to_data` described."""
        return cls(tuple(Parameter(row["name"], tuple(row["values"]), row["current"]) for row in data))


def search_space(
    settings: Mapping[str, Any],
    packing: PackingSettings,
    *,
    nodes: int,
    chosen: Mapping[str, Sequence[Value]] | None = None,
    loaning: Mapping[str, Any] | None = None,
    policy: str = LUCID,
    in_workers: bool = False,
) -> SearchSpace:
    """The space around a release's settings and thresholds, on a cluster of so many nodes.

    `loaning`: its settings of servers on loan, None: it lends none, and they are not tuned. `policy`: what it
    runs. `in_workers`: whether the log says in which workers jobs run; elsewhere none is elastic.

    `chosen` replaces the values of a parameter; one value alone fixes it. A profiler larger than
    `profiling_share_max` of the cluster is not tried: the policy would cut it back. Raises UnknownNameError
    for a name that is not tuned, BadInputError for a value that the policy or the model refuses, and where
    nothing of the release can be tuned.
    """
    replaced = dict(chosen or {})
    tuned = _tuned(policy, lends=loaning is not None, in_workers=in_workers)
    check_names("setting that is tuned", replaced, list(tuned))
    of_policy = _settings_of(policy, settings)
    current: dict[str, Any] = {**asdict(of_policy), "medium_from": packing.medium_from}
    current["tiny_above"] = packing.tiny_above
    current |= {} if loaning is None else ReleasedLoans.from_data(loaning).to_data()
    most_nodes = int(of_policy.profiling_share_max * nodes) if isinstance(of_policy, LucidSettings) else 0
    parameters = []
    for name, tried in tuned.items():
        if name == "sharing" and orders_only(settings):
            tried = (current[name],)  # whether jobs share GPUs a person decides, not a replay
        values = {_like(current[name], name, value) for value in replaced.get(name) or tried}
        if name == "profiling_nodes":
            values = {value for value in values if int(value) <= most_nodes} or {
                min(current[name], most_nodes)
            }
            current[name] = min(current[name], most_nodes)
        values.add(current[name])
        parameters.append(Parameter(name, tuple(sorted(values, key=_rank(name))), current[name]))
    space = SearchSpace(tuple(parameters))
    for trial in space.one_at_a_time():
        _settings_of(policy, {**settings, **policy_part(trial)})
        ReleasedLoans.from_data({**(loaning or {}), **loans_part(trial)})
    if not all(0 < float(value) < 2 for name in THRESHOLDS for value in replaced.get(name, ())):
        raise BadInputError("A packing threshold lies outside of (0, 2).", remedy="Use for example 0.85.")
    return space


def _tuned(policy: str, *, lends: bool, in_workers: bool) -> dict[str, tuple[Value, ...]]:
    """Return what is tuned of a release, and the values to try."""
    names = [name for name in _TRIED if name not in (*LOANS, *OF_WORKERS)] if policy == LUCID else []
    names += OF_WORKERS if policy == LYRA and in_workers else ()
    names += LOANS if lends else ()
    if not names:
        raise BadInputError(
            f"There is nothing to tune of a release that runs {policy} and lends no server: the log does not "
            "say in which workers jobs run, so that none of them scales.",
            remedy="Build it with servers on loan (lucid release build --loaning ...).",
        )
    return {name: tried for name, tried in _TRIED.items() if name in names}


def _settings_of(policy: str, settings: Mapping[str, Any]) -> Any:
    return load_policy(policy, settings).settings  # type: ignore[attr-defined]


def _like(current: Any, name: str, value: Value) -> Value:
    """A value as the setting's own kind of number: 60 and 60.0 are the same trial."""
    if name in _WORDS and value in _WORDS[name]:
        return value
    try:
        converted: Value = type(current)(value)
    except (TypeError, ValueError):
        converted = math.nan
    if name in _WORDS or converted != value:
        choices = f"one of {', '.join(_WORDS[name])}" if name in _WORDS else type(current).__name__
        raise BadInputError(f"{name} is to be tried as {value!r}.", remedy=f"Use {choices}.")
    return converted


def _rank(name: str) -> Any:
    return _WORDS[name].index if name in _WORDS else float


def policy_part(values: Values) -> dict[str, Value]:
    """A trial's settings of the policy."""
    return {name: value for name, value in values.items() if name not in (*THRESHOLDS, *LOANS)}


def loans_part(values: Values) -> dict[str, Value]:
    """A trial's settings of servers on loan; none of a release that lends none."""
    return {name: value for name, value in values.items() if name in LOANS}


def thresholds_of(values: Values) -> Thresholds:
    """A trial's thresholds: Medium from, Tiny above."""
    return float(values["medium_from"]), float(values["tiny_above"])


def with_thresholds(settings: PackingSettings, thresholds: Thresholds) -> PackingSettings:
    """The packing model's settings with other thresholds."""
    return replace(settings, medium_from=thresholds[0], tiny_above=thresholds[1])


def thresholds_rise(values: Values) -> bool:
    """Whether a trial's thresholds, if it has any, can cut speeds into three scores."""
    if not values.keys() >= set(THRESHOLDS):
        return True
    medium_from, tiny_above = thresholds_of(values)
    return medium_from < tiny_above


def shown(name: str, value: Value) -> str:
    """A value as the paper would write it."""
    if name == "sharing":
        capacity = SHARING_CAPACITY[str(value)]
        return f"{value} ({'nobody' if capacity is None else capacity})"
    return f"{value:g}" if isinstance(value, float) else str(value)
