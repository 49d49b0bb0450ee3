"""Parts: capabilities that an installation may do without, each a folder of `parts/` and one entry point.

A part says in one `Part` what it adds, as places (MODULE:NAME) that are imported when they are asked for.
The gate, the daemon, the command line and all others that parts add to ask `installed_parts()`, and name
none. A place that a part leaves out adds nothing. A part without its folder is not installed, whatever
is left of its metadata.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any, NamedTuple

from foundation.errors import BadInputError, NotFoundError

ENTRY_POINT_GROUP = "lucid.parts"


class Command(NamedTuple):
    """A command, or a group of commands, of the program.

    `name` is what is typed after `lucid`: one word, or a group's name and a command's ("live kueue"). `help`
    is the first paragraph of its own help, as the list of commands shows it. `module` registers it
    (`register(app)`), or holds its group (`app`).
    """

    name: str
    module: str
    help: str


class Dag(NamedTuple):
    """A DAG of Airflow's, which `dags/dags_of_parts.py` lists.

    `place`: the DAG, in a module that wires operators and imports nothing that a parse would wait for. `act`:
    what a person does who starts a run of it, a word of `lucid_airflow.access.acts.Act`; `asks`: whether its
    runs ask a person to answer; `command`: the command that does the same, if there is one.
    """

    dag_id: str
    place: str
    act: str
    asks: bool = False
    command: str = ""


@dataclass(frozen=True)
class Part:
    """What one part adds. All strings but names and `title` are places, MODULE:NAME.

    - `name`: its folder's, below parts/; `title`: what it is, and the paper that it follows.
    - `policies`, `rules`: scheduling policies and rule sets of the simulator, by name.
    - `companions`: what acts beside a policy and is made of settings alone, by name: places of functions of
      the settings and a seed (`simulator.scenario.companion`).
    - `policy_loader`: what it makes of any policy with settings of its own (`simulator.replay`).
    - `adapters`: kinds of clusters of the live scheduler, by name.
    - `needs`: of its policies and rule sets those that need another part, with that part's name: without it
      they are not offered.
    - `rank_accounts`: what explains a job's rank under a policy of the live scheduler, by the policy's name.
    - `mlflow_experiments`: experiments of MLflow; their runs past the retention are removed.
    - `work_folders`: of a lake, in which its steps keep what is made again when it is asked for again.
    - `live`: what it adds to the live scheduler, a `live_scheduler.capability.LiveCapability`.
    - `commands`: what it adds to `lucid`. `options`: what it adds to a command of the core, by its name, a
      group of options (`lucid_cli.part_options`).
    - `tables`: tables of a lake, by name, each a `cluster_logs.day_tables.DayTable`.
    - `readers`: formats of files, by name, each a `cluster_logs.readers.base.Reader`.
    - `models`: kinds of models, by name, each a `lucid_models.catalogue.CatalogueEntry`.
    - `dags`: DAGs of its own.
    - `forms`: what it adds to forms of the core's DAGs, by their ids (`lucid_airflow.part_forms`).
    - `pages`: what pages its runs leave in the state folder (`pipeline.kept_reports.PagesOfClusters`).
    - `gate_rules`: rules that it adds to the gate's (`simulator.gate.rules.PartRules`).
    - `gate_check`: what the gate asks of a release for it (`pipeline.validation.part_checks.GateCheck`).
    - `monitor_check`: how monitoring judges it (`pipeline.monitoring.part_health.MonitorCheck`).
    - `release_settings`: what of it a release pins (`pipeline.release.part_settings.PartOfRelease`).
    - `tuned`: what of it is tuned (`pipeline.studies.tuning.tuned_part.TunedPart`).
    - `manifest`: fields of a release's manifest, by name, each a
      `lucid_models.releases.optional_parts.OptionalPart`.
    - `model_steps`: what is done with models of a kind, each a `pipeline.training.model_steps.ModelSteps`.
    - `planned`: what a plan varies by it (`pipeline.planning.planned_part.PlannedPart`).
    """

    name: str
    title: str
    policies: Mapping[str, str] = field(default_factory=dict)
    rules: Mapping[str, str] = field(default_factory=dict)
    companions: Mapping[str, str] = field(default_factory=dict)
    policy_loader: str | None = None
    needs: Mapping[str, str] = field(default_factory=dict)
    adapters: Mapping[str, str] = field(default_factory=dict)
    rank_accounts: Mapping[str, str] = field(default_factory=dict)
    mlflow_experiments: tuple[str, ...] = ()
    work_folders: tuple[str, ...] = ()
    live: str | None = None
    commands: tuple[Command, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, str] = field(default_factory=dict)
    readers: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    dags: tuple[Dag, ...] = ()
    forms: Mapping[str, str] = field(default_factory=dict)
    pages: str | None = None
    gate_rules: str | None = None
    gate_check: str | None = None
    monitor_check: str | None = None
    release_settings: str | None = None
    tuned: str | None = None
    manifest: Mapping[str, str] = field(default_factory=dict)
    model_steps: Mapping[str, str] = field(default_factory=dict)
    planned: str | None = None


class KnownPart(NamedTuple):
    """A part of a checkout: where it lies, and what can be asked for that it brings.

    `manifest_fields`: fields of a release's manifest, each with the first format that has it: what a format
    holds does not depend on what is installed.
    """

    folder: str
    brings: tuple[str, ...]
    manifest_fields: Mapping[str, int] = MappingProxyType({})


# Only so that a part which is not installed can be named where what it brings is asked for.
KNOWN: Mapping[str, KnownPart] = {
    "experiments": KnownPart(
        "experiments",
        (
            *("lucid evaluate", "lucid reproduce", "lucid replay-updates"),
            *("policy pollux", "policy gandiva", "policy opportunistic"),
            *("rules lucid-artifact", "rules helios-artifact", "rules pcs-artifact"),
        ),
    ),
    "characterisation": KnownPart("parts/characterisation", ("lucid characterise",)),
    "elastic": KnownPart(
        "parts/elastic",
        (
            *("policy afs", "policy elastic_fifo", "policy pcs", "policy srsf", "policy themis"),
            *("lucid pareto", "lucid release pick"),
        ),
    ),
    "horus": KnownPart(
        "parts/horus",
        ("lucid predict-profile", "lucid train utilisation", "model utilisation", "policy horus"),
    ),
    "kueue": KnownPart("parts/kueue", ("adapter kueue", "lucid live kueue")),
    "lending": KnownPart(
        "parts/lending",
        (
            *("policy lyra", "rules lyra", "companion inference"),
            *(
                "table inference_load",
                "format inference-load",
                "model inference_load",
                "setting loans",
                "lucid live loans",
                "lucid train inference",
            ),
            *("gate rule inference_short_limit_pct", "gate rule loan_preemptions_per_day_limit"),
            *("gate rule loan_preemption_ratio_limit_pct", "gate rule loan_group_margin_pct"),
            "gate rule loan_group_floor_s",
            "lucid inference",
            *("option --inference", "option --inference-servers", "option --scenario", "option --loaning"),
            *("option --loaned-workers", "option --scaling", "option --reclaim", "option --job-share"),
            *("option --most-short-pct", "option --inference-load"),
            *("option --servers", "option --full-load", "option --zeros-are-gaps", "option --rates-column"),
        ),
        {"loaning": 5},
    ),
    "live_profiling": KnownPart("parts/live_profiling", ("setting profiling_partition",)),
    "node_sleep": KnownPart(
        "parts/node_sleep",
        (
            *("companion node_sleep", "model node_demand", "setting node_sleep", "lucid train nodes"),
            *("gate rule wake_ups_per_day_limit", "gate rule nodes_short_limit_pct"),
            "gate rule added_queuing_limit_s",
            *("lucid nodes", "option --node-sleep", "option --node-demand"),
        ),
        {"node_sleep": 4},
    ),
    "waits": KnownPart(
        "parts/waits",
        (
            *("model waits", "lucid live waits", "lucid train waits"),
            *("option --waits", "option --wait-model"),
        ),
        {"waits": 6},
    ),
}


@cache
def installed_parts() -> tuple[Part, ...]:
    """Return the installed parts, by name; raises BadInputError for an entry point that is no part."""
    from importlib.metadata import entry_points  # the dead man's switch that only looks stays small

    found = {}
    for entry in sorted(entry_points(group=ENTRY_POINT_GROUP)):
        try:
            part = entry.load()
        except ModuleNotFoundError as error:
            if error.name and f"{entry.module}.".startswith(f"{error.name}."):
                continue
            raise
        if not isinstance(part, Part):
            raise BadInputError(
                f"The part {entry.name!r} is {part!r}.",
                remedy="Its entry point must name a foundation.parts.Part.",
            )
        found[part.name] = part
    return tuple(found[name] for name in sorted(found))


def offered(field_name: str) -> dict[str, str]:
    """Return the places of all installed parts in one of their mappings, by name; without what needs a part
    that is not installed.
    """
    installed = {part.name for part in installed_parts()}
    return {
        name: place
        for part in installed_parts()
        for name, place in getattr(part, field_name).items()
        if part.needs.get(name, part.name) in installed
    }


def hooks(field_name: str) -> Iterator[tuple[Part, Any]]:
    """Yield each part that has something at a place, with what stands there; imported as it is reached."""
    for part in installed_parts():
        place = getattr(part, field_name)
        if place is not None:
            yield part, at_place(place)


def at_place(place: str) -> Any:
    """Return what stands at MODULE:NAME.

    Raises ImportError or AttributeError where nothing does, NotFoundError where it needs a part that is not
    installed.
    """
    module, _, name = place.partition(":")
    try:
        found = import_module(module)
    except ModuleNotFoundError as error:
        missing = missing_part(error, module)
        if missing is None:
            raise
        raise missing from error
    for each in name.split("."):
        found = getattr(found, each)
    return found


def missing_part(error: BaseException, needed_by: str) -> NotFoundError | None:
    """Return which part to install for a module whose import failed; None for any other error."""
    above, _, place = (getattr(error, "name", None) or "").partition(".")
    if not isinstance(error, ModuleNotFoundError) or above != "parts":
        return None
    if f"{needed_by}.".startswith(f"{error.name}."):
        return None
    part = place.partition(".")[0]
    if not part:
        return NotFoundError(
            f"{needed_by} needs a part that is not installed.", remedy="`make install` installs all parts."
        )
    return NotFoundError(
        f"{needed_by} needs the part {part!r}, which is not installed.",
        remedy=f"Install it from a checkout: pip install ./parts/{part}",
    )


def manifest_fields() -> dict[str, int]:
    """Return the fields of a release's manifest that are settings of parts of a checkout, installed or not,
    each with the first format that has it, the oldest first.
    """
    fields = {name: since for known in KNOWN.values() for name, since in known.manifest_fields.items()}
    return dict(sorted(fields.items(), key=lambda item: item[1]))


def lacking() -> dict[str, NotFoundError]:
    """Return what parts of a checkout that are not installed would bring, and what of installed ones needs
    them, each with the error that says so.
    """
    installed = {part.name for part in installed_parts()}
    without_another = {
        what: NotFoundError(
            f"`{what}` needs the part {needed!r}, which is not installed.",
            remedy=f"Install it from a checkout: pip install ./parts/{needed}",
        )
        for part in installed_parts()
        for name, needed in part.needs.items()
        for what in [f"{'policy' if name in part.policies else 'rules'} {name}"]
        if needed not in installed
    }
    return without_another | {
        what: NotFoundError(
            f"`{what}` belongs to the part {name!r}, which is not installed.",
            remedy=f"Install it from a checkout: pip install ./{known.folder}",
        )
        for name, known in KNOWN.items()
        if name not in installed
        for what in (*known.brings, *(f"field {field} of releases" for field in known.manifest_fields))
    }
