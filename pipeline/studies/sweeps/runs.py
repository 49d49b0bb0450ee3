"""What a sweep is: policies x settings x sizes x noises x seeds, each run with an identity; one tidy table.

A run's identity is a digest of everything that its result depends on, so a result can be looked up instead of
computed again, wherever it was computed.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from math import isfinite, isnan
from typing import Any

import pandas as pd

from foundation import strict_json
from foundation.equal_numbers import with_equal_numbers
from foundation.errors import BadInputError, check_names
from foundation.strict_json import StrictJsonError
from pipeline.studies.study import OK
from pipeline.studies.sweeps.added_nodes import added_nodes_text
from simulator.policies.registry import policy_class
from simulator.scenario.companion import Companion, companion_of
from simulator.scenario.rules import DEFAULT, Rules

# Part of every run's identity. Raise it when the same run gives other figures than before (a change of the
# engine, of a policy or of a metric): stored results are then computed again.
RESULTS_VERSION = 2

ADDED_NODES = "added_nodes"  # the column of runs with more or fewer nodes
MISSING = "missing"  # a run without a record

# Figures that differ from one execution to the next, and those that are no single value.
_NOT_IN_TABLE = ("policy", "engine", "cpu_s", "jobs_per_cpu_s")


@dataclass(frozen=True)
class SweepRun:
    """One simulation of a sweep.

    `node_scale` multiplies every virtual cluster's nodes. With `estimate_noise` sigma, a policy's estimates
    are the true run times times exp(sigma x N(0, 1)), drawn with `seed`; without, they are the log's own or
    its users' history. `companions` are settings of what acts beside the policy, by name.
    `added_nodes` are nodes more or fewer by virtual cluster (`with_added_nodes`).
    """

    policy: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    node_scale: float = 1.0
    estimate_noise: float | None = None
    companions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    added_nodes: Mapping[str, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the run as plain values, without what it does not change: identities stay as they were."""
        beside = {name: dict(sorted(own.items())) for name, own in sorted(self.companions.items())}
        added = {"added_nodes": dict(sorted(self.added_nodes.items()))} if self.added_nodes else {}
        return {
            "policy": self.policy,
            "settings": dict(sorted(self.settings.items())),
            "seed": self.seed,
            "node_scale": self.node_scale,
            "estimate_noise": self.estimate_noise,
            **beside,
            **added,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "SweepRun":
        """Return the run that `to_dict` described: what is no field is a companion's settings."""
        own = {each.name for each in fields(cls)}
        beside = {name: value for name, value in values.items() if name not in own}
        return cls(companions=beside, **{name: value for name, value in values.items() if name in own})

    @property
    def label(self) -> str:
        """Name the run for people: policy, settings and what else is not the default."""
        parts = [self.policy, *(f"{name}={shown(value)}" for name, value in sorted(self.settings.items()))]
        if self.node_scale != 1:
            parts.append(f"nodes x {self.node_scale:g}")
        if self.added_nodes:
            parts.append(f"nodes {added_nodes_text(self.added_nodes)}")
        if self.estimate_noise is not None:
            parts.append(f"noise {self.estimate_noise:g}")
        for companion, own in sorted(self.companions.items()):
            parts += [f"{companion}.{name}={shown(value)}" for name, value in sorted(own.items())]
        return " ".join([*parts, f"seed {self.seed}"])

    @property
    def alone(self) -> "SweepRun":
        """The same run without companions."""
        return replace(self, companions={})

    def made_companions(self) -> tuple[Companion, ...]:
        """Return its companions; raises as `companion_of`."""
        return tuple(companion_of(name, own, self.seed) for name, own in sorted(self.companions.items()))


def run_id(run: SweepRun, inputs_sha256: str) -> str:
    """Return the run's identity: 20 hex digits of a digest of inputs, run and RESULTS_VERSION.

    Numbers that are equal are the same setting, whether written 60 or 60.0.
    """
    identity = {"inputs": inputs_sha256, "run": with_equal_numbers(run.to_dict()), "version": RESULTS_VERSION}
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def expand(
    policies: Sequence[str],
    *,
    settings: Mapping[str, Mapping[str, Sequence[Any]]] | None = None,
    seeds: Sequence[int] = (0,),
    node_scales: Sequence[float] = (1.0,),
    estimate_noises: Sequence[float | None] = (None,),
    companions: Mapping[str, Mapping[str, Sequence[Any]]] | None = None,
    added_nodes: Mapping[str, int] | None = None,
    rules: Rules = DEFAULT,
) -> tuple[SweepRun, ...]:
    """Return every combination, each once, in the order in which they are given.

    `settings` holds, by policy and setting, the values to try; all combinations of a policy's values are run.
    So does `companions` for what acts beside the policy; each run is then also made without. With
    `added_nodes` each run is made with the present nodes, and with so many more or fewer.
    Raises UnknownNameError for a policy or a setting that does not exist, and BadInputError for an empty list
    or a number that cannot be used. A value that a policy refuses is found when it runs.
    """
    axes_by_policy = {policy: dict(values) for policy, values in (settings or {}).items()}
    for name, values in (
        ("policies", policies),
        ("seeds", seeds),
        ("node_scales", node_scales),
        ("estimate_noises", estimate_noises),
        *(
            (f"{policy}.{key}", tried)
            for policy, keys in axes_by_policy.items()
            for key, tried in keys.items()
        ),
        *((f"{name}.{key}", tried) for name, own in (companions or {}).items() for key, tried in own.items()),
    ):
        if not values:
            raise BadInputError(
                f"The sweep has no {name}.", remedy="Give at least one value, or leave it out."
            )
    for scale in node_scales:
        if not (isfinite(scale) and scale > 0):
            raise BadInputError(
                f"A node scale is {scale!r}.", remedy="Use more than 0; 1 is the cluster's size."
            )
    for noise in estimate_noises:
        if noise is not None and not (isfinite(noise) and noise >= 0):
            raise BadInputError(f"An estimate noise is {noise!r}.", remedy="Use 0 (true run times) or more.")
    for policy in axes_by_policy:
        if policy not in policies:
            raise BadInputError(
                f"A setting is given for {policy!r}, which the sweep does not run.",
                remedy=f"It runs: {', '.join(policies)}.",
            )
    besides = _besides(companions or {})
    sizes: list[Mapping[str, int]] = [{}, dict(added_nodes)] if added_nodes else [{}]
    runs: dict[str, SweepRun] = {}
    for policy in policies:
        setting_names = _setting_names(policy, rules)
        axes = axes_by_policy.get(policy, {})
        check_names(f"setting of policy {policy!r}:", axes, setting_names)
        for values in product(*axes.values()):
            values_by_setting = dict(zip(axes, values, strict=True))
            for scale, noise, seed, beside, added in product(
                node_scales, estimate_noises, seeds, besides, sizes
            ):
                run = SweepRun(policy, values_by_setting, int(seed), float(scale), noise, beside, added)
                runs.setdefault(run_id(run, ""), run)
    return tuple(runs.values())


def _besides(companions: Mapping[str, Mapping[str, Sequence[Any]]]) -> list[dict[str, dict[str, Any]]]:
    """Return no companion at all, and every combination of the settings of those that act."""
    besides: list[dict[str, dict[str, Any]]] = [{}]
    for name, values in companions.items():
        tried = [dict(zip(values, combination, strict=True)) for combination in product(*values.values())]
        acting = [settings for settings in tried if settings and companion_of(name, settings).acts]
        besides += [{**beside, name: settings} for beside in besides for settings in acting]
    return besides


def _setting_names(policy: str, rules: Rules) -> list[str]:
    settings_class = getattr(policy_class(policy, rules), "Settings", None)
    return [] if settings_class is None else [field.name for field in fields(settings_class)]


def values_of(text: str) -> list[Any]:
    """Read a list of values from one option, `60,100,200`; each is JSON where it can be read as such.

    A comma inside brackets or quotes belongs to its value: `[1,2],[3,4]` are two lists.
    """
    parts = [""]
    depth, quoted = 0, False
    for character in text:
        if character == '"':
            quoted = not quoted
        elif not quoted:
            depth += (character in "[{") - (character in "]}")
        if character == "," and not depth and not quoted:
            parts.append("")
        else:
            parts[-1] += character
    return [_json_or_text(part.strip()) for part in parts if part.strip()]


def _json_or_text(text: str) -> Any:
    try:
        return strict_json.loads(text, constants=True)
    except StrictJsonError:
        return text


def shown(value: Any) -> str:
    """Return a setting's value as a person would write it."""
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) else json.dumps(value)


def tidy_table(runs: Mapping[str, SweepRun], records: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """Return one row a run, in the order of `runs` (by identity), with its settings, status and figures.

    `records` hold `status`, `error` and `figures` (a simulation's summary) by identity; a run without a
    record is "missing". A setting's column is named POLICY.SETTING and empty for other policies; those of
    companions are named COMPANION.SETTING, and `added_queuing_delay_s` is the mean queuing delay beyond that
    of the same run without companions. Figures that depend on the machine (CPU seconds)
    are not part of the table: the same sweep gives the same table anywhere.
    """
    axes = sorted({f"{run.policy}.{name}" for run in runs.values() for name in run.settings})
    figures: dict[str, None] = {}
    for identity in runs:
        figures.update(dict.fromkeys(_figures(records.get(identity, {}))))
    columns: dict[str, Any] = {
        "run_id": list(runs),
        "policy": [run.policy for run in runs.values()],
    }
    for axis in axes:
        policy, _, name = axis.partition(".")
        columns[axis] = _column(
            [run.settings.get(name) if run.policy == policy else None for run in runs.values()]
        )
    besides = [run.companions for run in runs.values()]
    for companion, name in sorted({(key, name) for each in besides for key in each for name in each[key]}):
        columns[f"{companion}.{name}"] = _column([each.get(companion, {}).get(name) for each in besides])
    columns["node_scale"] = [run.node_scale for run in runs.values()]
    if any(run.added_nodes for run in runs.values()):
        added_texts = [added_nodes_text(run.added_nodes) or None for run in runs.values()]
        columns[ADDED_NODES] = pd.array(added_texts, dtype="str")
    columns["estimate_noise"] = pd.array([run.estimate_noise for run in runs.values()], dtype="Float64")
    columns["seed"] = [run.seed for run in runs.values()]
    absent = {"status": MISSING, "error": "This run has no result yet."}
    records_in_order = [records.get(identity, absent) for identity in runs]
    columns["status"] = [record["status"] for record in records_in_order]
    columns["error"] = pd.array([record["error"] for record in records_in_order], dtype="str")
    figures_in_order = [_figures(record) for record in records_in_order]
    for name in figures:
        columns[name] = _column([own.get(name) for own in figures_in_order])
    if any(besides):
        columns["added_queuing_delay_s"] = _added_queuing_s(runs, records)
    return pd.DataFrame(columns)


def _added_queuing_s(runs: Mapping[str, SweepRun], records: Mapping[str, Mapping[str, Any]]) -> Any:
    """Return each run's mean queuing delay beyond that of the same run without companions (s)."""
    mean_s = {
        run_id(run, ""): _figures(records.get(identity, {})).get("mean_queuing_delay_s")
        for identity, run in runs.items()
    }
    pairs = [(mean_s[run_id(run, "")], mean_s.get(run_id(run.alone, ""))) for run in runs.values()]
    added = [None if own is None or alone is None else float(own) - float(alone) for own, alone in pairs]
    return pd.array(added, dtype="Float64")


def axes_of(table: pd.DataFrame) -> list[str]:
    """Return the columns that a sweep may vary, seeds aside.

    POLICY.SETTING, COMPANION.SETTING, node_scale, added_nodes, estimate_noise.
    """
    cluster = ("node_scale", ADDED_NODES, "estimate_noise")
    return [name for name in table.columns if "." in name or name in cluster]


def variants(table: pd.DataFrame, figures: Sequence[str]) -> list[dict[str, Any]]:
    """Return each variant (policy, settings, size, noise) with its mean figures, the lowest mean JCT first.

    A row holds the variant's own axes, `seeds` (how many of its runs have a result), the means over them, and
    `spread_jct_s`: the highest mean JCT of a seed minus the lowest.
    """
    good = table[table["status"] == OK]
    axes = axes_of(table)
    rows = []
    for key, group in good.groupby(["policy", *axes], sort=True, dropna=False):
        values: list[Any] = list(key)
        axis_values = {
            name: value for name, value in zip(["policy", *axes], values, strict=True) if not pd.isna(value)
        }
        jct = group["mean_jct_s"].astype(float)
        means = {name: float(group[name].astype(float).mean()) for name in figures}
        rows.append(
            {
                **axis_values,
                "seeds": len(group),
                **{name: value for name, value in means.items() if not isnan(value)},
                "spread_jct_s": float(jct.max() - jct.min()),
            }
        )
    return sorted(rows, key=lambda row: row["mean_jct_s"])


def _figures(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record's single figures, and how many rows of the log were skipped."""
    summary: Mapping[str, Any] = record.get("figures") or {}
    figures = {
        name: value
        for name, value in summary.items()
        if name not in _NOT_IN_TABLE and isinstance(value, bool | int | float | str)
    }
    if "skipped" in summary:
        figures["skipped_jobs"] = sum(summary["skipped"].values())
    return figures


def _column(values: list[Any]) -> Any:
    """One column of values and Nones: numbers where all are numbers, else text."""
    present = [value for value in values if value is not None]
    if present and all(isinstance(value, bool) for value in present):
        return pd.array(values, dtype="boolean")
    if present and all(isinstance(value, int) and not isinstance(value, bool) for value in present):
        return pd.array([None if value is None else int(value) for value in values], dtype="Int64")
    if present and all(isinstance(value, int | float) and not isinstance(value, bool) for value in present):
        return pd.array([None if value is None else float(value) for value in values], dtype="Float64")
    return pd.array([None if value is None else shown(value) for value in values], dtype="str")
