"""Fields that the forms of several DAGs have; each form says in its own words what a field means there."""

import json

from airflow.sdk import Param

from cluster_logs.cluster_names import CLUSTER_NAME
from cluster_logs.log_sources import log_sources
from lucid_airflow import settings
from simulator.gate.installed_rules import installed_rules

OPTIONAL_TEXT = ["string", "null"]
CLUSTER_PATTERN = f"^{CLUSTER_NAME}$"


def cluster(description: str, default: str = "synthetic-venus") -> Param:
    """A cluster's name in the lake."""
    return Param(
        default,
        type="string",
        pattern=CLUSTER_PATTERN,
        title="Cluster",
        description=description,
    )


def another_cluster(title: str, description: str) -> Param:
    """The name of a cluster; may be left empty."""
    return Param(None, type=OPTIONAL_TEXT, pattern=CLUSTER_PATTERN, title=title, description=description)


def log_source(default: str) -> Param:
    """Where a cluster's log comes from."""
    return Param(
        default,
        enum=log_sources(),
        title="Source",
        description="The log's format, a live Slurm, or a made log.",
    )


def hold_out_days(description: str, *, default: int | None) -> Param:
    """The last days of a log, which the gate judges on; without a default it may be left empty."""
    return Param(
        default,
        type=["integer", "null"] if default is None else "integer",
        minimum=1,
        maximum=365,
        title="Held-out days",
        description=description,
    )


def as_of(description: str) -> Param:
    """The day (UTC) on which a log is taken to end; may be left empty."""
    return Param(None, type=["string", "null"], format="date", title="As of", description=description)


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
    return Param(
        False,
        type="boolean",
        title=title,
        description="This installation does not require it (LUCID_REQUIRE_APPROVAL is off); this run may.",
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
    return Param(
        {},
        type="object",
        title="What-if rules",
        description='Of the gate, by name, e.g. {"margin_pct": 1}: makes a study and no verdict. Empty: a '
        f"verdict by {stated} (LUCID_GATE_RULES) and what the release was chosen for.",
    )


def allow_simulated_profiles() -> Param:
    """Whether a release of a real log may go live on profiles that no GPU of the cluster gave."""
    return Param(
        False,
        type="boolean",
        title="Simulated profiles may be published",
        description="Of a real log without measured profiles: its release may go live although its packing "
        "model learned from the simulated GPU. Off: as the champion; else the gate refuses such a release.",
    )
