"""What a sweep is asked to do: a TOML file, the command line's options or a DAG's form, as one checked value.

format = "helios"
jobs = "log.csv.gz"            # paths are relative to the file
nodes = "nodes.csv"
policies = ["fifo", "tiresias", "lucid"]
seeds = [0, 1, 2]
job_types = "drawn"
singles = "singles.csv"
pairs = "pairs.csv"
estimate_noises = [0.5, 1.0]

[settings.lucid]
profiling_limit_s = [60, 100, 200]

[COMPANION]                    # beside runs without it, of a part
buffer_nodes = [1, 3, 5, 10]
"""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any, get_args

from foundation.errors import BadInputError, check_names
from foundation.outside_names import has_scheme, read_regular
from foundation.parts import lacking
from foundation.progress import Progress, silent
from foundation.site import Site
from pipeline import settings as places
from pipeline.replay.cluster_events import ClusterEvents, ClusterSize
from pipeline.replay.job_types import JobTypes
from pipeline.replay.log_file import LogFile
from pipeline.replay.log_scenario import reference_measurements
from pipeline.replay.warm_up import warm_up_days_of
from pipeline.studies.sweeps.added_nodes import MOST_NODES
from pipeline.studies.sweeps.inputs import (
    EVENTS,
    SweepInputs,
    read_lake,
    read_log,
    settings_of_live,
    with_live_beliefs,
)
from pipeline.studies.sweeps.runs import SweepRun, expand
from pipeline.training.windows import read_time
from simulator.scenario.companion import companion_names
from simulator.scenario.rules import load_rules
from simulator.workload.node_failures import DEFAULT_REPAIR_HOURS

_PATHS = ("jobs", "nodes", "singles", "pairs")


@dataclass(frozen=True)
class SweepSpec:
    """A log, a cluster's size, and what to vary. Field names are the keys of the TOML file.

    `settings` are combined with each other, policy by policy; each of `variants` (policy, settings) stands
    alone. `companions` are values of their settings, by name, combined with all runs; in a file each is a
    table of its name. `added_nodes` are nodes more or fewer by virtual cluster, beside the present ones; `*`
    is all of them in proportion. With `cluster` and no `jobs`, all comes from the lake: jobs, nodes and
    profiles.

    The jobs before `start` fill the cluster (`pipeline.replay.warm_up`), unless it is to start `cold`, or as
    another simulator does, by its `rules`.

    `live_release`: by the models of the release that is live, of the registry `tracking`. `keep_jobs`: each
    job's wait with its causes is kept of every run.
    """

    jobs: str = ""
    format: str = ""
    lake: str | None = None
    cluster: str | None = None
    nodes: str | None = None
    gpus: int | None = None
    gpus_per_node: int = 8
    start: str | None = None
    end: str | None = None
    time_zone: str | None = None
    rules: str = "default"
    policies: tuple[str, ...] = ()
    settings: Mapping[str, Mapping[str, tuple[Any, ...]]] = field(default_factory=dict)
    variants: tuple[tuple[str, Mapping[str, tuple[Any, ...]]], ...] = ()
    seeds: tuple[int, ...] = (0,)
    node_scales: tuple[float, ...] = (1.0,)
    added_nodes: Mapping[str, int] = field(default_factory=dict)
    estimate_noises: tuple[float, ...] = ()
    job_types: JobTypes | None = None
    singles: str | None = None
    pairs: str | None = None
    live_release: bool = False
    tracking: str | None = None
    keep_jobs: bool = False
    cpu_cores_per_node: int = 0
    failure_mtbf_hours: float | None = None
    failure_repair_hours: float = DEFAULT_REPAIR_HOURS
    companions: Mapping[str, Mapping[str, tuple[Any, ...]]] = field(default_factory=dict)
    cold: bool = False

    @classmethod
    def from_toml(cls, path: Path) -> "SweepSpec":
        """Read a file. Raises BadInputError for a file or a value, UnknownNameError for a key."""
        try:
            document = tomllib.loads(read_regular(path).decode("utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
            raise BadInputError(
                f"The sweep file {str(path)!r} cannot be read: {error}.",
                remedy="Write TOML; see docs/sweeps.md.",
            ) from error
        for key in _PATHS:
            value = document.get(key)
            if isinstance(value, str) and not has_scheme(value):
                document[key] = str(path.parent / value)
        return cls().changed(document, place=str(path))

    def changed(self, values: Mapping[str, Any], *, place: str = "The sweep") -> "SweepSpec":
        """Return the same with other values by key; `place` says in errors where they come from."""
        checked: dict[str, Any] = {}
        companions = dict(self.companions)
        for key, value in values.items():
            if key not in _KEYS and (missing := lacking().get(f"companion {key}")):
                raise missing
            check_names(f"key of a sweep ({place}):", [key], (*_KEYS, *companion_names()))
            read, wanted = _KEYS.get(key, (_tried, f"Write {key}.NAME = [values]."))
            try:
                (checked if key in _KEYS else companions)[key] = read(value)
            except (TypeError, ValueError):
                raise BadInputError(f"{place}: {key} is {value!r}.", remedy=wanted) from None
        return replace(self, companions=companions, **checked)

    def runs(self) -> tuple[SweepRun, ...]:
        """Return every combination. Raises BadInputError or UnknownNameError for what cannot be run."""
        wanted = [(self.policies, self.settings)] if self.policies or not self.variants else []
        wanted += [((policy,), {policy: settings}) for policy, settings in self.variants]
        return tuple(
            run
            for policies, settings in wanted
            for run in expand(
                policies,
                settings=settings,
                seeds=self.seeds,
                node_scales=self.node_scales,
                estimate_noises=self.estimate_noises or (None,),
                companions=self.companions,
                added_nodes=self.added_nodes,
                rules=load_rules(self.rules),
            )
        )

    def with_live_settings(self) -> "SweepSpec":
        """Return the same with the settings of the live release for its policy, where it is to be used.

        Stated settings stand above them. Raises NotFoundError when no release is live.
        """
        if not self.live_release:
            return self
        if self.cluster is None or self.jobs:
            raise BadInputError(
                "A log file has no live release.", remedy="Give a cluster of the lake, or leave it out."
            )
        settings = {
            policy: {**of_release, **self.settings.get(policy, {})}
            for policy, of_release in settings_of_live(
                Site(registry=self._tracking_uri, cluster=self.cluster)
            ).items()
            if policy in self.policies
        }
        return replace(self, settings={**self.settings, **settings})

    @property
    def _tracking_uri(self) -> str:
        return self.tracking or places.tracking_uri()

    def read_inputs(self, progress: Progress = silent) -> SweepInputs:
        """Read the log and what goes with it. Raises BadInputError when the sweep does not say enough."""
        if self.cluster is not None and not self.jobs:
            return self._read_lake()
        for key in ("jobs", "format"):
            if not getattr(self, key):
                raise BadInputError(
                    f"The sweep names no {key}.", remedy=f"Give --{key}, or {key} in the file."
                )
        if (self.nodes is None) == (self.gpus is None):
            raise BadInputError(
                "The cluster's size is not clear.", remedy="Give either --nodes FILE or --gpus N."
            )
        if (self.singles is None) != (self.pairs is None):
            raise BadInputError("Colocation needs both measurements.", remedy="Give --singles and --pairs.")
        singles, pairs = self.singles, self.pairs
        remarks: tuple[str, ...] = ()
        named = {*self.policies, *(policy for policy, _ in self.variants)}
        if singles is None and "lucid" in named and load_rules(self.rules).labelled_scores:
            reference_singles, reference_pairs, remark = reference_measurements()
            singles, pairs = (
                None if path is None else str(path) for path in (reference_singles, reference_pairs)
            )
            remarks = (remark,)
        inputs = read_log(
            LogFile(
                self.jobs,
                self.format,
                read_time(self.start),
                read_time(self.end),
                self.time_zone,
                warm_up_days_of(load_rules(self.rules), cold=self.cold),
            ),
            ClusterSize(self.nodes, self.gpus, self.gpus_per_node),
            events=self._events(),
            rules=self.rules,
            job_types=self.job_types or "log",
            measured=None if singles is None or pairs is None else (singles, pairs),
            progress=progress,
        )
        return replace(inputs, remarks=(*inputs.remarks, *remarks))

    def _read_lake(self) -> SweepInputs:
        """All from the lake; job types that the log lacks are drawn unless `job_types` says otherwise."""
        fixed = {"nodes": self.nodes, "gpus": self.gpus, "singles": self.singles, "pairs": self.pairs}
        for key, value in fixed.items():
            if value is not None:
                raise BadInputError(
                    f"--cluster {self.cluster} takes everything from the lake, but {key} is {value!r}.",
                    remedy=f"Leave out {key}, or give the log as --jobs.",
                )
        assert self.cluster is not None  # noqa: S101 - the caller looked
        lake_uri = self.lake or places.lake_uri()
        inputs = read_lake(
            Site(lake=lake_uri, cluster=self.cluster),
            start=read_time(self.start),
            end=read_time(self.end),
            events=self._events(),
            rules=self.rules,
            job_types=self.job_types or "drawn",
            warm_up_days=warm_up_days_of(load_rules(self.rules), cold=self.cold),
        )
        if not self.live_release:
            return inputs
        return with_live_beliefs(Site(lake_uri, self._tracking_uri, self.cluster), inputs)

    def _events(self) -> ClusterEvents:
        return ClusterEvents(**{name: getattr(self, name) for name in EVENTS})


def _text(value: Any) -> str | None:
    if isinstance(value, datetime | date):  # TOML has times of its own
        return value.isoformat()
    if value is None or isinstance(value, str):
        return value
    raise TypeError


def _job_types(value: Any) -> Any:
    if value is None or value in get_args(JobTypes):
        return value
    raise ValueError


def _number(least: int, *, whole: bool = False, optional: bool = False) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if value is None and optional:
            return None
        if not isinstance(value, int if whole else int | float) or isinstance(value, bool) or value < least:
            raise ValueError
        return value

    return read


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _added(value: Any) -> dict[str, int]:
    read = _number(-MOST_NODES, whole=True)
    added = {str(name): int(read(more)) for name, more in _mapping(value).items()}
    if any(more > MOST_NODES for more in added.values()):
        raise ValueError
    return {name: more for name, more in added.items() if more}


def _list_of(kind: Any) -> Callable[[Any], tuple[Any, ...]]:
    def read(value: Any) -> tuple[Any, ...]:
        values = value if isinstance(value, list | tuple) else [value]
        if not values or not all(isinstance(item, kind) and not isinstance(item, bool) for item in values):
            raise TypeError
        return tuple(values)

    return read


def _settings(value: Any) -> dict[str, dict[str, tuple[Any, ...]]]:
    return {str(policy): _tried(settings) for policy, settings in _mapping(value).items()}


def _variants(value: Any) -> tuple[tuple[str, dict[str, tuple[Any, ...]]], ...]:
    if not isinstance(value, list | tuple):
        raise TypeError
    for variant in value:
        if set(_mapping(variant)) - {"settings"} != {"policy"}:
            raise ValueError
    return tuple((str(variant["policy"]), _tried(variant.get("settings", {}))) for variant in value)


def _tried(value: Any) -> dict[str, tuple[Any, ...]]:
    """Settings, each with the values to try."""
    return {
        str(name): tuple(tried) if isinstance(tried, list | tuple) else (tried,)
        for name, tried in _mapping(value).items()
    }


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError
    return value


# How each key's value is read (TypeError, ValueError: it cannot be), and what to write.
_KEYS: Mapping[str, tuple[Callable[[Any], Any], str]] = {
    "jobs": (_text, "Give the log's path."),
    "format": (_text, "Give the log's format."),
    "lake": (_text, "Give the lake's root URI."),
    "cluster": (_text, "Give the cluster's name in the lake."),
    "nodes": (_text, "Give the path of a CSV virtual_cluster,nodes."),
    "gpus": (_number(1, whole=True, optional=True), "Give a number of GPUs, 1 or more."),
    "gpus_per_node": (_number(1, whole=True), "Give a number of GPUs, 1 or more."),
    "start": (_text, "Write a day or time, 2017-10-01 or 2017-10-01T08:00:00."),
    "end": (_text, "Write a day or time, 2017-10-01 or 2017-10-01T08:00:00."),
    "time_zone": (_text, "Write a zone's name, for instance Asia/Shanghai."),
    "rules": (_text, "Give the name of a rule set."),
    "policies": (_list_of(str), "List the policies' names."),
    "settings": (_settings, "Write settings.POLICY.NAME = [values]."),
    "variants": (_variants, "Write [[variants]] with policy = NAME and settings = { NAME = VALUE }."),
    "added_nodes": (
        _added,
        f'Write added_nodes = {{ "*" = 4 }} or {{ vc1 = -2 }}: whole numbers, {MOST_NODES:,} at most.',
    ),
    "live_release": (_flag, "Write true or false."),
    "tracking": (_text, "Give MLflow's address."),
    "keep_jobs": (_flag, "Write true or false."),
    "cold": (_flag, "Write true or false."),
    "seeds": (_list_of(int), "List whole numbers."),
    "node_scales": (_list_of(int | float), "List numbers above 0."),
    "estimate_noises": (_list_of(int | float), "List numbers of 0 or more."),
    "job_types": (_job_types, f"Choose one of: {', '.join(get_args(JobTypes))}."),
    "singles": (_text, "Give the path of the solo profiles."),
    "pairs": (_text, "Give the path of the pair profiles."),
    "cpu_cores_per_node": (_number(0, whole=True), "Give a whole number, 0 or more."),
    "failure_mtbf_hours": (
        _number(0, optional=True),
        "Give mean hours between a node's failures, or none.",
    ),
    "failure_repair_hours": (_number(0), "Give mean hours until a node is back."),
}
