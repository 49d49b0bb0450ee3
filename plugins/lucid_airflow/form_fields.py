"""Fields that the forms of several DAGs have; each form says in its own words what a field means there.

Airflow shows the fields without a section first and unfolded, and each section folded below them: a section
is what most runs leave alone (`folded`). A text with a rule states it in words (`text`): below the field, and
again where Airflow refuses a value, since what JSON Schema says was expected is then the sentence itself.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow.sdk import DAG, Param

from cluster_logs.log_sources import SLURM, SYNTHETIC, log_sources
from cluster_logs.readers.registry import CLUSTER_LOGS
from foundation.outside_names import CLUSTER_NAME, CLUSTER_NAME_RULE, clusters_in_folder
from lucid_airflow import settings
from simulator.gate.installed_rules import installed_rules
from simulator.policies.registry import policy_names

OPTIONAL_TEXT = ["string", "null"]
TIME_ZONES = ["UTC", "Asia/Shanghai", "Europe/Berlin", "America/Los_Angeles", "America/New_York"]


@dataclass(frozen=True)
class TextRule:
    """What a text must be: a regular expression of all of it, and the same in words, a noun phrase."""

    pattern: str
    words: str

    @property
    def schema(self) -> dict[str, Any]:
        """As JSON Schema: a text that does not match is told the words, not the expression."""
        return {"if": {"pattern": f"^(?:{self.pattern})$"}, "else": {"const": self.words}}

    @property
    def sentence(self) -> str:
        """The words as a sentence."""
        return f"{self.words[0].upper()}{self.words[1:]}."


CLUSTER = TextRule(CLUSTER_NAME, CLUSTER_NAME_RULE)
DAY_OR_TIME = TextRule(
    r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?",
    "a day or a time, as 2017-12-01 or 2017-12-01T08:00",
)
DAY_TIME_OR_NOW = TextRule(
    rf"now|{DAY_OR_TIME.pattern}", "a day or a time (UTC), as 2017-12-01 or 2017-12-01T08:00, or the word now"
)
TIME_ZONE = TextRule(r"[A-Za-z][\w+-]*(/[\w+-]+)*", "a zone by its IANA name, as Asia/Shanghai")
DEVICE = TextRule(
    r"\d+|(GPU|MIG)-[0-9a-fA-F/-]+|simulated(:\d+)?|cpu",
    "a GPU by its number or UUID, as 0 or GPU-8f6a; or simulated:SEED, as simulated:0; or cpu",
)
OBJECTIVE = TextRule(
    r"(JCT|unfairness|Pred_err):(avg|p[0-9.]+)",
    "JCT, Pred_err or unfairness, a colon, and avg or a percentile, as JCT:avg or Pred_err:p99",
)
FRONT_POINT = TextRule(r"c\d+", "the id of a point of the front: c and a number, as c3")


def folded(section: str, fields: dict[str, Param]) -> dict[str, Param]:
    """Put fields into a section of the form that opens when it is wanted."""
    for field in fields.values():
        field.schema["section"] = section
    return fields


def text(
    title: str,
    description: str,
    rule: TextRule | None = None,
    *,
    default: str | None = None,
    examples: Sequence[str] = (),
) -> Param:
    """A line of text, by a rule that the form states; may be left empty unless it has a default."""
    return Param(
        default,
        type=OPTIONAL_TEXT if default is None else "string",
        title=title,
        description=f"{description} {rule.sentence}" if rule else description,
        **(rule.schema if rule else {}),
        **({"examples": list(examples)} if examples else {}),
    )


def choices(
    title: str,
    description: str,
    options: Sequence[str],
    rule: TextRule | None = None,
    *,
    default: Sequence[str] | None,
    at_least: int = 1,
) -> Param:
    """Some of the options, which the form offers to pick; without a default it may be left empty.

    With a rule, other values by it may be written into the form's JSON (Advanced Options).
    """
    return Param(
        None if default is None else list(default),
        type=["array", "null"] if default is None else "array",
        items={"type": "string", **(rule.schema if rule else {"enum": list(options)})},
        minItems=at_least,
        examples=list(options),
        title=title,
        description=f"{description} {rule.sentence}" if rule else description,
    )


def count(
    title: str, description: str, *, default: int | None, least: int = 0, most: int | None = None
) -> Param:
    """A whole number, by bounds that the form states; without a default it may be left empty."""
    return _number("integer", title, description, default, minimum=least, maximum=most)


def number(
    title: str,
    description: str,
    *,
    default: float | None,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
) -> Param:
    """A number from `least` on, or above `above`, by bounds that the form states; as `count`."""
    bounds = {"minimum": least, "exclusiveMinimum": above, "maximum": most}
    return _number("number", title, description, default, **bounds)


def _number(kind: str, title: str, description: str, default: float | None, **bounds: float | None) -> Param:
    stated = {name: bound for name, bound in bounds.items() if bound is not None}
    least, most = stated.get("minimum"), stated.get("maximum")
    if least is None:
        words = f"Above {stated['exclusiveMinimum']:,g}" + ("" if most is None else f", at most {most:,g}")
    else:
        words = f"{least:,g} or more" if most is None else f"{least:,g} to {most:,g}"
    return Param(
        default,
        type=[kind, "null"] if default is None else kind,
        title=title,
        description=f"{description} {words}.".lstrip(),
        **stated,
    )


def switch(title: str, description: str, *, default: bool = False) -> Param:
    """What is on or off."""
    return Param(default, type="boolean", title=title, description=description)


def option(title: str, description: str, words: Mapping[str, str], *, default: str) -> Param:
    """One of the options, each shown by its words."""
    return Param(
        default,
        type="string",
        enum=list(words),
        values_display=dict(words),
        title=title,
        description=description,
    )


def answers(dag: DAG, *names: str) -> dict[str, Any]:
    """What the form says in these fields, by name: arguments of an operator."""
    return {name: dag.param(name) for name in names}


def cluster(description: str, default: str | None = None) -> Param:
    """A cluster's name in the lake, new or one that is there; without a default it must be given."""
    if default is not None:
        return text("Cluster", description, CLUSTER, default=default, examples=_clusters())
    asked = text("Cluster", description, CLUSTER, examples=_clusters())
    return Param(description=asked.description, **(asked.schema | {"type": "string"}))


def the_cluster(description: str, *, when_empty: str = "the lake's only one") -> Param:
    """The cluster that a run by hand is about; where the lake has several, one must be named.

    For DAGs without a schedule: Airflow starts no run by itself of a form that must be filled.
    """
    if len(_clusters()) > 1:
        return cluster(description)
    return another_cluster("Cluster", f"{description} Empty: {when_empty}.")


def another_cluster(title: str, description: str) -> Param:
    """The name of a cluster that is there; may be left empty."""
    return text(title, description, CLUSTER, examples=_clusters())


def _clusters() -> list[str]:
    return clusters_in_folder(os.environ.get("LUCID_LAKE_URI"))


def log_source(default: str) -> Param:
    """Where a cluster's log comes from."""
    made = {name: f"{name}: made, needs no file" for name in log_sources() if name.startswith(SYNTHETIC)}
    return Param(
        default,
        type="string",
        enum=log_sources(),
        values_display={SLURM: f"{SLURM}: the live Slurm of this installation, needs no file", **made},
        title="Source",
        description="The format of the file below, the live Slurm, or a made log to try things on.",
    )


def days_of_log() -> dict[str, Param]:
    """From when until when jobs count."""
    return {
        "start": text("From", "Jobs submitted from then on. Empty: from the first.", DAY_OR_TIME),
        "end": text("Until", "Jobs submitted before that. Empty: to the last.", DAY_OR_TIME),
    }


def cold_start() -> dict[str, Param]:
    """Whether a replay of days begins with an empty cluster."""
    return {
        "cold": switch(
            "Start with an empty cluster",
            "Off: the jobs from before these days fill the cluster and are not counted.",
        )
    }


def time_zone(description: str) -> Param:
    """The clock of times that name none; may be left empty."""
    return text("Time zone", description, TIME_ZONE, examples=TIME_ZONES)


def gpus_per_node(description: str) -> Param:
    """How many GPUs a node has where no file says it."""
    return count("GPUs of one node", description, default=8, least=1, most=64)


def log_file() -> dict[str, Param]:
    """A log that is replayed in place of the lake's jobs."""
    return {
        "input_uri": place("Log file", "A path or URI. Empty: the lake's jobs."),
        "source_format": text(
            "Its format", "Of the log file, as in the form of ingest_logs.", examples=list(CLUSTER_LOGS)
        ),
        "nodes_uri": place("Its nodes", "CSV with the columns virtual_cluster,nodes: the cluster's size."),
        "gpus_per_node": gpus_per_node("Of the cluster of the log file."),
        "time_zone": time_zone("Of times in the file that name none. Empty: UTC, or what the format says."),
    }


def policies(description: str, default: Sequence[str]) -> Param:
    """Scheduling policies to pick from."""
    return choices("Policies", description, policy_names(), default=default)


def policy(when_empty: str) -> Param:
    """One scheduling policy; may be left empty, and then means what `when_empty` says."""
    return Param(
        None,
        type=OPTIONAL_TEXT,
        enum=[*policy_names(), None],
        values_display={"null": when_empty},
        title="Policy",
        description=f"What orders the queue. Empty: {when_empty}.",
    )


def rule_set() -> Param:
    """The rules of the simulator, by name."""
    return text(
        "Rules",
        "The simulator's rule set; another one imitates a published simulator.",
        default="default",
        examples=["default"],
    )


def values(title: str, description: str, example: str) -> Param:
    """Settings by name, as a JSON object."""
    return Param({}, type="object", title=title, description=f"{description} A JSON object, e.g. {example}.")


def release(description: str) -> Param:
    """A release by its number; may be left empty."""
    return count("Release", f"Its number, as the page Lucid has it. {description}", default=None, least=1)


def hold_out_days(description: str, *, default: int | None) -> Param:
    """The last days of a log, which the gate judges on; without a default it may be left empty."""
    return count("Held-out days", description, default=default, least=1, most=365)


def as_of(description: str) -> Param:
    """The day (UTC) on which a log is taken to end; may be left empty."""
    return Param(None, type=OPTIONAL_TEXT, format="date", title="As of", description=description)


def seed(description: str) -> Param:
    """What is drawn is drawn by it."""
    return count("Seed", f"{description} The same number draws the same.", default=0)


def approval_required() -> Param:
    """Whether a person must approve: on and fixed where the installation requires it, else for one run."""
    title = "A person must approve"
    if settings.approval_required():
        return Param(
            True,
            type="boolean",
            enum=[True],
            title=title,
            description="This installation requires it (LUCID_REQUIRE_APPROVAL); no run can switch it off.",
        )
    return switch(
        title, "This installation does not require it (LUCID_REQUIRE_APPROVAL is off); this run may."
    )


def reason() -> Param:
    """Why a release goes live; may be left empty (a text that must be a text may not: Trigger is off)."""
    return Param(
        None,
        type=OPTIONAL_TEXT,
        maxLength=1_000,
        title="Why",
        description="Kept with the release, for those who ask later who let it go live; at most 1,000 "
        "characters.",
    )


def place(title: str, description: str, *, reads_from: str = "input_roots") -> Param:
    """A path or URI that a worker opens; may be left empty.

    `reads_from` names the function of `settings` that says where it may lie: every task checks that before
    it begins (`operators/base.py`), and nothing else can be opened.
    """
    return Param(None, type=OPTIONAL_TEXT, title=title, description=description, reads_from=reads_from)


def what_if_rules() -> Param:
    """Rules of the gate for a study; says which ones the installation goes by."""
    own = installed_rules()
    stated = f"the installation's {json.dumps(own)}" if own else "the defaults"
    return values(
        "What-if rules",
        f"Of the gate, by name: they make a study and no verdict. Empty: a verdict by {stated} "
        "(LUCID_GATE_RULES) and what the release was chosen for.",
        '{"margin_pct": 1}',
    )


def allow_simulated_profiles() -> Param:
    """Whether a release of a real log may go live on profiles that no GPU of the cluster gave."""
    return switch(
        "Simulated profiles may be published",
        "Of a real log without measured profiles: jobs may share GPUs although the packing model learned "
        "from the simulated GPU. Off: as the champion; else its release orders jobs and none share GPUs.",
    )
