"""What is tuned: the settings of section 4.5, each a short list of values that holds the current one.

Every parameter is a position in its list, so the optimiser sees steps and a trial is plain data. T_prof,
N_prof, C_prof and G_SS are settings of the Lucid policy; the two thresholds are settings of the Packing
Analyze Model: its tree is trained anew for them. Parts add settings of their policies, and of what a
release has of them (`pipeline.studies.tuning.tuned_part`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any

from foundation.errors import BadInputError, check_names
from lucid_models.packing.tree import PackingSettings
from lucid_models.releases.manifest import orders_only
from pipeline.studies.optimiser import Parameters, ask, optimiser
from pipeline.studies.tuning.tuned_part import Tried, TunedPart, Value, Values, tuned_parts, tuned_policies
from simulator.policies.lucid import LucidSettings
from simulator.policies.registry import load_policy
from simulator.stages.strategy import SHARING_CAPACITY

Thresholds = tuple[float, float]

SHARING = ("none", "apathetic", "default")  # by G_SS: none, 1, 2
NO_PARTS: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
THRESHOLDS = ("medium_from", "tiny_above")
LUCID = "lucid"
_OF_LUCID: Mapping[str, Tried] = {
    "profiling_limit_s": Tried("T_prof (s)", (60.0, 100.0, 150.0, 200.0, 300.0, 450.0, 600.0)),
    "profiling_max_gpus": Tried("N_prof (GPUs)", (1, 2, 4, 8, 16)),
    "profiling_nodes": Tried("C_prof (nodes)", (0, 1, 2, 3, 4, 6, 8)),
    "borrowed_nodes_max": Tried("C_prof, borrowed (nodes)", (0, 2, 4, 8)),
    "sharing": Tried("G_SS", SHARING),
    "medium_from": Tried("Medium from", (0.75, 0.80, 0.85, 0.88)),
    "tiny_above": Tried("Tiny above", (0.90, 0.93, 0.95, 0.97)),
}


def tried_settings() -> dict[str, Tried]:
    """Return every setting that can be tuned: Lucid's, those of parts' policies, and of the parts."""
    policies = [policy.settings for policy in tuned_policies().values()]
    parts = [part.settings for part in tuned_parts()]
    return {name: tried for each in (_OF_LUCID, *policies, *parts) for name, tried in each.items()}


def symbol_of(name: str) -> str:
    """Return what people call a setting: the paper's name of it."""
    return tried_settings()[name].symbol


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
        return symbol_of(self.name)


@dataclass(frozen=True)
class SearchSpace:
    """The parameters in the order of the paper; each trial gives every one a value."""

    parameters: tuple[Parameter, ...]

    @property
    def current(self) -> dict[str, Value]:
        """What holds now: trial 0."""
        return {parameter.name: parameter.current for parameter in self.parameters}

    @property
    def parts(self) -> tuple[TunedPart, ...]:
        """The parts of the release with settings among them."""
        names = {parameter.name for parameter in self.parameters}
        return tuple(part for part in tuned_parts() if names & part.settings.keys())

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
    parts: Mapping[str, Mapping[str, Any]] = NO_PARTS,
    policy: str = LUCID,
    in_log: bool = False,
) -> SearchSpace:
    """The space around a release's settings and thresholds, on a cluster of so many nodes.

    `parts`: its settings of parts, by their fields; of one that it does without nothing is tuned. `policy`:
    what it runs. `in_log`: whether the log says what the settings of a part's policy act on.

    `chosen` replaces the values of a parameter; one value alone fixes it. A profiler larger than
    `profiling_share_max` of the cluster is not tried: the policy would cut it back. Raises UnknownNameError
    for a name that is not tuned, BadInputError for a value that the policy or the model refuses, and where
    nothing of the release can be tuned.
    """
    replaced = dict(chosen or {})
    its_parts = [part for part in tuned_parts() if part.field in parts]
    tuned = _tuned(policy, its_parts, in_log=in_log)
    check_names("setting that is tuned", replaced, list(tuned))
    of_policy = _settings_of(policy, settings)
    current: dict[str, Any] = {**asdict(of_policy), "medium_from": packing.medium_from}
    current["tiny_above"] = packing.tiny_above
    for part in its_parts:
        current |= part.pinned(parts[part.field])
    most_nodes = int(of_policy.profiling_share_max * nodes) if isinstance(of_policy, LucidSettings) else 0
    parameters = []
    for name, tried in tuned.items():
        of_name = tried.values
        if name == "sharing" and orders_only(settings):
            of_name = (current[name],)  # whether jobs share GPUs a person decides, not a replay
        values = {_like(current[name], name, value, tried) for value in replaced.get(name) or of_name}
        if name == "profiling_nodes":
            values = {value for value in values if int(value) <= most_nodes} or {
                min(current[name], most_nodes)
            }
            current[name] = min(current[name], most_nodes)
        values.add(current[name])
        parameters.append(Parameter(name, tuple(sorted(values, key=_rank(tried))), current[name]))
    space = SearchSpace(tuple(parameters))
    for trial in space.one_at_a_time():
        _settings_of(policy, {**settings, **policy_part(trial)})
        for part in its_parts:
            part.pinned({**parts[part.field], **part.of(trial)})
    if not all(0 < float(value) < 2 for name in THRESHOLDS for value in replaced.get(name, ())):
        raise BadInputError("A packing threshold lies outside of (0, 2).", remedy="Use for example 0.85.")
    return space


def _tuned(policy: str, parts: Sequence[TunedPart], *, in_log: bool) -> dict[str, Tried]:
    """Return what is tuned of a release, and the values to try."""
    own = None if policy == LUCID else tuned_policies()[policy]
    tuned = dict(_OF_LUCID) if own is None else dict(own.settings) if in_log else {}
    for part in parts:
        tuned |= part.settings
    if own is not None and not tuned:
        raise BadInputError(own.nothing, remedy=own.remedy)
    return tuned


def _settings_of(policy: str, settings: Mapping[str, Any]) -> Any:
    return load_policy(policy, settings).settings  # type: ignore[attr-defined]


def _like(current: Any, name: str, value: Value, tried: Tried) -> Value:
    """A value as the setting's own kind of number: 60 and 60.0 are the same trial."""
    if value in tried.words:
        return value
    try:
        converted: Value = type(current)(value)
    except (TypeError, ValueError):
        converted = math.nan
    if tried.words or converted != value:
        choices = f"one of {', '.join(tried.words)}" if tried.words else type(current).__name__
        raise BadInputError(f"{name} is to be tried as {value!r}.", remedy=f"Use {choices}.")
    return converted


def _rank(tried: Tried) -> Any:
    return tried.words.index if tried.words else float


def policy_part(values: Values) -> dict[str, Value]:
    """A trial's settings of the policy."""
    others = {*THRESHOLDS, *(name for part in tuned_parts() for name in part.settings)}
    return {name: value for name, value in values.items() if name not in others}


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
        return f"{value} ({'no sharing' if capacity is None else capacity})"
    return f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class TuningBase:
    """What holds now: the policy and its settings, those of the packing model and of parts by their fields,
    the release that they are of, and until when its models have learned.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    packing: PackingSettings = field(default_factory=PackingSettings)
    release: int | None = None
    parts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    policy: str = LUCID
    learned_until: datetime | None = None


# -- asking the optimiser ------------------------------------------------------------------------------------

_TREES_SEED = 0

Scored = Sequence[tuple[Values, float | None]]


def next_trials(
    space: SearchSpace, scored: Scored, *, seed: int, round_number: int, size: int
) -> list[dict[str, Value]]:
    """Return up to `size` new trials, from `scored` ones (a lower score is better; None: failed).

    Fewer, or none, when the space has nothing new that the optimiser would try.
    """
    tried = {_key(space, values) for values, _ in scored}

    def accept(positions: Parameters) -> dict[str, Value] | None:
        values = {**space.current, **{p.name: p.values[int(positions[p.name])] for p in space.free}}
        key = _key(space, values)
        if key in tried or not thresholds_rise(values):
            return None
        tried.add(key)
        return values

    study = _optimiser(space, scored, seed=seed, round_number=round_number)
    return ask(study, _distributions(space), accept, size=size)


def importances(space: SearchSpace, scored: Scored) -> dict[str, float]:
    """Return the share of the scores' variance that each parameter explains (fANOVA, Hutter et al. 2014).

    Empty when too few trials differ to say.
    """
    import optuna

    scores = {score for _, score in scored if score is not None}
    if len(scores) < 2 or len(space.free) < 1:
        return {}
    study = _optimiser(space, scored, seed=0, round_number=0)
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=_TREES_SEED)
    shares: Mapping[str, float] = optuna.importance.get_param_importances(study, evaluator=evaluator)
    return {parameter.name: float(shares.get(parameter.name, 0.0)) for parameter in space.free}


def _optimiser(space: SearchSpace, scored: Scored, *, seed: int, round_number: int) -> Any:
    positions = [
        ({p.name: p.position(values[p.name]) for p in space.free}, (score,))
        for values, score in scored
        if score is not None
    ]
    return optimiser(positions, _distributions(space), seed=seed, round_number=round_number)


def _distributions(space: SearchSpace) -> dict[str, Any]:
    import optuna

    return {p.name: optuna.distributions.IntDistribution(0, len(p.values) - 1) for p in space.free}


def _key(space: SearchSpace, values: Values) -> tuple[int, ...]:
    return tuple(p.position(values[p.name]) for p in space.free)
