"""What a site declares of its scheduling, by Slurm's own words; the defaults are those of Slurm 22.05.

Times are in seconds, and None is "no limit". `SlurmKey` names the key of Slurm's that a field holds. TRES are
by Slurm's names (`cpu`, `mem` in MiB, `node`, `gres/gpu`, `gres/gpu:a100`, `billing`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Literal

from cluster_logs.site.consistency import check_site
from cluster_logs.site.declared import Declared
from foundation.checked_settings import Between

DAY_S = 86_400.0
ROOT = "root"  # the account above all others

Tres = Mapping[str, int]
# What a replay leaves out of a key, and what that does to waits.
_NO_FACTOR = "jobs of an association with a priority come first in Slurm; in the replay they do not"
_HELD_AGE = "jobs gain age while they are held; in the replay from when they may start"
_NO_TIME = "how often and how long the schedulers run; in the replay they take no time"
_DEPTH = "the main scheduler looks at so many jobs of a partition; in the replay at all, so they wait less"
_OVER_TIME = "jobs may run so much beyond their limit; in the replay they are planned to end at it"
_COMPLETING = "nothing starts for so long while a job completes; in the replay it does"
_NO_CPUS = "jobs get so many cores a GPU; the replay knows GPUs alone, so nodes short of cores start more"
_TAKEN = "jobs beyond it are refused, or wait until it is changed; a log holds the ones that ran"
_GRACE = "a job that is preempted runs on for so long; in the replay it stops at once"
_FLAGS = "flags change which limits hold; in the replay none does"
_DOWN = "its jobs wait; in the replay they start"
_SHARING = "jobs have whole nodes (exclusive), or share cores and GPUs; in the replay each GPU has one job"
_NO_MEMORY = "a node without memory left starts nothing; the replay knows GPUs alone, so jobs wait less"
_ANY_TYPE = "a job may ask for a type of GPU and wait for it; in the replay any will do"
_ANY_FEATURE = "a job may ask for nodes with a feature and wait for them; in the replay any will do"
_ANY_WEIGHT = "nodes of low weight are filled first; in the replay the first that fit are"
_NODE_TABLE = "such nodes start nothing; the replay has the nodes of its node table"
_NOT_KEPT = "its nodes are kept for some; in the replay they are free for all, so others wait less"
# TRES that a replay knows of jobs.
KNOWN_TRES = frozenset({"gres/gpu", "node"})
OTHER_TRES = "the replay knows GPUs and nodes of jobs alone, so it neither weighs nor limits others"

PreemptMode = Literal["off", "cancel", "requeue", "suspend"]


@dataclass(frozen=True)
class SlurmKey:
    """The key of Slurm's that a field holds.

    `left_out`: what the policy `site` does not replay of it, and what that does to waits; empty: it does.
    """

    key: str
    left_out: str = ""


@dataclass(frozen=True, kw_only=True)
class PriorityRules(Declared):
    """How waiting jobs are ordered (slurm.conf, Priority*)."""

    noun = "key of [priority]"
    title = "Priority"

    type: Annotated[Literal["basic", "multifactor"], SlurmKey("PriorityType")] = "basic"
    weight_age: Annotated[int, Between(0), SlurmKey("PriorityWeightAge")] = 0
    weight_assoc: Annotated[int, Between(0), SlurmKey("PriorityWeightAssoc", _NO_FACTOR)] = 0
    weight_fair_share: Annotated[int, Between(0), SlurmKey("PriorityWeightFairshare")] = 0
    weight_job_size: Annotated[int, Between(0), SlurmKey("PriorityWeightJobSize")] = 0
    weight_partition: Annotated[int, Between(0), SlurmKey("PriorityWeightPartition")] = 0
    weight_qos: Annotated[int, Between(0), SlurmKey("PriorityWeightQOS")] = 0
    weight_tres: Annotated[Mapping[str, float], SlurmKey("PriorityWeightTRES")] = field(default_factory=dict)
    max_age_s: Annotated[float, Between(1), SlurmKey("PriorityMaxAge")] = 7 * DAY_S
    decay_half_life_s: Annotated[float, Between(0), SlurmKey("PriorityDecayHalfLife")] = 7 * DAY_S  # 0: none
    calc_period_s: Annotated[float, Between(1), SlurmKey("PriorityCalcPeriod")] = 300.0
    favor_small: Annotated[bool, SlurmKey("PriorityFavorSmall")] = False
    fair_tree: Annotated[bool, SlurmKey("PriorityFlags: not NO_FAIR_TREE")] = True
    small_relative_to_time: Annotated[bool, SlurmKey("PriorityFlags: SMALL_RELATIVE_TO_TIME")] = False
    max_tres: Annotated[bool, SlurmKey("PriorityFlags: MAX_TRES")] = False
    accrue_always: Annotated[bool, SlurmKey("PriorityFlags: ACCRUE_ALWAYS", _HELD_AGE)] = False


@dataclass(frozen=True, kw_only=True)
class SchedulerRules(Declared):
    """When and how far the two schedulers look (slurm.conf, SchedulerType and SchedulerParameters)."""

    noun = "key of [scheduler]"
    title = "Scheduler"

    type: Annotated[Literal["backfill", "builtin"], SlurmKey("SchedulerType")] = "backfill"
    interval_s: Annotated[float, Between(1), SlurmKey("sched_interval")] = 60.0
    min_interval_s: Annotated[float, Between(0), SlurmKey("sched_min_interval", _NO_TIME)] = 2e-6
    batch_delay_s: Annotated[float, Between(0), SlurmKey("batch_sched_delay")] = 3.0
    queue_depth: Annotated[int, Between(0), SlurmKey("default_queue_depth")] = 100
    partition_job_depth: Annotated[int, Between(0), SlurmKey("partition_job_depth", _DEPTH)] = (
        0  # 0: no limit
    )
    defer: Annotated[bool, SlurmKey("defer")] = False  # nothing is looked at at once
    bf_interval_s: Annotated[float, Between(1), SlurmKey("bf_interval")] = 30.0
    bf_window_s: Annotated[float, Between(60), SlurmKey("bf_window")] = DAY_S
    bf_resolution_s: Annotated[float, Between(1), SlurmKey("bf_resolution")] = 60.0
    bf_max_time_s: Annotated[float | None, SlurmKey("bf_max_time", _NO_TIME)] = None  # None: bf_interval
    bf_max_job_test: Annotated[int, Between(1), SlurmKey("bf_max_job_test")] = 500
    bf_max_job_user: Annotated[int, Between(0), SlurmKey("bf_max_job_user")] = 0  # 0: no limit
    bf_max_job_part: Annotated[int, Between(0), SlurmKey("bf_max_job_part")] = 0
    bf_max_job_start: Annotated[int, Between(0), SlurmKey("bf_max_job_start")] = 0
    bf_min_age_reserve_s: Annotated[float, Between(0), SlurmKey("bf_min_age_reserve")] = 0.0
    bf_continue: Annotated[bool, SlurmKey("bf_continue")] = False
    assoc_limit_stop: Annotated[bool, SlurmKey("assoc_limit_stop")] = (
        False  # a job at its limit stops the queue
    )
    over_time_limit_s: Annotated[float, Between(0), SlurmKey("OverTimeLimit", _OVER_TIME)] = 0.0
    complete_wait_s: Annotated[float, Between(0), SlurmKey("CompleteWait", _COMPLETING)] = 0.0
    kill_wait_s: Annotated[float, Between(0), SlurmKey("KillWait")] = 30.0
    default_cpus_per_gpu: Annotated[int, Between(0), SlurmKey("DefCpuPerGPU", _NO_CPUS)] = 0
    max_jobs: Annotated[int, Between(1), SlurmKey("MaxJobCount")] = 10_000
    enforce_limits: Annotated[bool, SlurmKey("AccountingStorageEnforce: limits")] = False
    enforce_qos: Annotated[bool, SlurmKey("AccountingStorageEnforce: qos")] = False


@dataclass(frozen=True, kw_only=True)
class PreemptionRules(Declared):
    """Which jobs may stop which others, and how (slurm.conf, Preempt*)."""

    noun = "key of [preemption]"
    title = "Preemption"

    type: Annotated[Literal["none", "qos", "partition_prio"], SlurmKey("PreemptType")] = "none"
    mode: Annotated[PreemptMode, SlurmKey("PreemptMode")] = "off"
    exempt_time_s: Annotated[float, Between(0), SlurmKey("PreemptExemptTime")] = 0.0
    youngest_first: Annotated[bool, SlurmKey("PreemptParameters: youngest_first")] = False
    reorder_count: Annotated[int, Between(0), SlurmKey("PreemptParameters: reorder_count")] = 1


@dataclass(frozen=True, kw_only=True)
class Limits(Declared):
    """What the jobs of a QOS, an account or a user may have at once. None or an empty table: no limit.

    Of an association `max_jobs` counts its own jobs and `grp_*` those below it too; of a QOS `grp_*` counts
    all of its jobs.
    """

    grp_jobs: Annotated[int | None, SlurmKey("GrpJobs")] = None
    grp_submit_jobs: Annotated[int | None, SlurmKey("GrpSubmitJobs", _TAKEN)] = None
    grp_tres: Annotated[Tres, SlurmKey("GrpTRES")] = field(default_factory=dict)
    max_tres_per_job: Annotated[Tres, SlurmKey("MaxTRES", _TAKEN)] = field(default_factory=dict)
    max_wall_s: Annotated[float | None, SlurmKey("MaxWall", _TAKEN)] = None


@dataclass(frozen=True, kw_only=True)
class Qos(Limits):
    """A quality of service (sacctmgr show qos)."""

    noun = "key of a QOS"
    title = "QOS"

    name: str
    priority: Annotated[int, Between(0), SlurmKey("Priority")] = 0
    usage_factor: Annotated[float, Between(0), SlurmKey("UsageFactor")] = 1.0
    preempts: Annotated[tuple[str, ...], SlurmKey("Preempt")] = ()
    preempt_mode: Annotated[PreemptMode | None, SlurmKey("PreemptMode")] = None  # None: the cluster's
    exempt_time_s: Annotated[float | None, SlurmKey("PreemptExemptTime")] = None
    grace_time_s: Annotated[float, Between(0), SlurmKey("GraceTime", _GRACE)] = 0.0
    max_jobs_per_user: Annotated[int | None, SlurmKey("MaxJobsPU")] = None
    max_submit_jobs_per_user: Annotated[int | None, SlurmKey("MaxSubmitPU", _TAKEN)] = None
    max_tres_per_user: Annotated[Tres, SlurmKey("MaxTRESPU")] = field(default_factory=dict)
    max_jobs_per_account: Annotated[int | None, SlurmKey("MaxJobsPA")] = None
    max_submit_jobs_per_account: Annotated[int | None, SlurmKey("MaxSubmitPA", _TAKEN)] = None
    max_tres_per_account: Annotated[Tres, SlurmKey("MaxTRESPA")] = field(default_factory=dict)
    flags: Annotated[tuple[str, ...], SlurmKey("Flags", _FLAGS)] = ()


@dataclass(frozen=True, kw_only=True)
class Account(Limits):
    """An account in the tree of shares (sacctmgr show assoc, rows without a user)."""

    noun = "key of an account"
    title = "Account"

    name: str
    parent: Annotated[str, SlurmKey("ParentName")] = ROOT
    shares: Annotated[int, Between(0), SlurmKey("Share")] = 1
    shares_parent: Annotated[bool, SlurmKey("Share: parent")] = False  # its users count as its parent's own
    max_jobs: Annotated[int | None, SlurmKey("MaxJobs")] = None
    max_submit_jobs: Annotated[int | None, SlurmKey("MaxSubmit", _TAKEN)] = None
    qos: Annotated[tuple[str, ...], SlurmKey("QOS")] = ()
    default_qos: Annotated[str, SlurmKey("Def QOS")] = ""
    priority: Annotated[int, Between(0), SlurmKey("Priority", _NO_FACTOR)] = 0


@dataclass(frozen=True, kw_only=True)
class User(Limits):
    """A user in an account (sacctmgr show assoc, rows with a user)."""

    noun = "key of a user"
    title = "User"

    name: str
    account: str
    default_account: bool = True
    partition: Annotated[str, SlurmKey("Partition")] = ""  # "": in all
    shares: Annotated[int, Between(0), SlurmKey("Share")] = 1
    shares_parent: Annotated[bool, SlurmKey("Share: parent")] = False
    max_jobs: Annotated[int | None, SlurmKey("MaxJobs")] = None
    max_submit_jobs: Annotated[int | None, SlurmKey("MaxSubmit", _TAKEN)] = None
    qos: Annotated[tuple[str, ...], SlurmKey("QOS")] = ()
    default_qos: Annotated[str, SlurmKey("Def QOS")] = ""
    priority: Annotated[int, Between(0), SlurmKey("Priority", _NO_FACTOR)] = 0


@dataclass(frozen=True, kw_only=True)
class Partition(Declared):
    """A partition (slurm.conf, PartitionName)."""

    noun = "key of a partition"
    title = "Partition"

    name: str
    nodes: Annotated[tuple[str, ...], SlurmKey("Nodes")] = ()  # host lists, as n[1-4]
    default: Annotated[bool, SlurmKey("Default")] = False
    up: Annotated[bool, SlurmKey("State", _DOWN)] = True
    priority_tier: Annotated[int, Between(0), SlurmKey("PriorityTier")] = 1
    priority_job_factor: Annotated[int, Between(0), SlurmKey("PriorityJobFactor")] = 1
    max_time_s: Annotated[float | None, SlurmKey("MaxTime")] = None
    default_time_s: Annotated[float | None, SlurmKey("DefaultTime")] = None  # None: max_time_s
    min_nodes: Annotated[int, Between(0), SlurmKey("MinNodes", _TAKEN)] = 0
    max_nodes: Annotated[int | None, SlurmKey("MaxNodes", _TAKEN)] = None
    over_subscribe: Annotated[
        Literal["no", "exclusive", "yes", "force"], SlurmKey("OverSubscribe", _SHARING)
    ] = "no"
    preempt_mode: Annotated[PreemptMode | None, SlurmKey("PreemptMode")] = None
    grace_time_s: Annotated[float, Between(0), SlurmKey("GraceTime", _GRACE)] = 0.0
    qos: Annotated[str, SlurmKey("QOS")] = ""
    allow_accounts: Annotated[tuple[str, ...], SlurmKey("AllowAccounts", _TAKEN)] = ()
    deny_accounts: Annotated[tuple[str, ...], SlurmKey("DenyAccounts", _TAKEN)] = ()
    allow_qos: Annotated[tuple[str, ...], SlurmKey("AllowQos", _TAKEN)] = ()
    deny_qos: Annotated[tuple[str, ...], SlurmKey("DenyQos", _TAKEN)] = ()
    billing_weights: Annotated[Mapping[str, float], SlurmKey("TRESBillingWeights")] = field(
        default_factory=dict
    )


@dataclass(frozen=True, kw_only=True)
class Nodes(Declared):
    """Nodes that are alike (slurm.conf, NodeName)."""

    noun = "key of nodes"
    title = "Nodes"

    names: Annotated[tuple[str, ...], SlurmKey("NodeName")]  # host lists
    cpus: Annotated[int, Between(1), SlurmKey("CPUs")] = 1
    memory_mib: Annotated[int, Between(1), SlurmKey("RealMemory", _NO_MEMORY)] = 1
    gres: Annotated[Tres, SlurmKey("Gres", _ANY_TYPE)] = field(
        default_factory=dict
    )  # gpu = 8, or "gpu:a100" = 8
    features: Annotated[tuple[str, ...], SlurmKey("Features", _ANY_FEATURE)] = ()
    weight: Annotated[int, Between(0), SlurmKey("Weight", _ANY_WEIGHT)] = 1
    up: Annotated[bool, SlurmKey("State", _NODE_TABLE)] = True

    @property
    def gpus(self) -> int:
        """GPUs of a node, of all types."""
        return sum(count for name, count in self.gres.items() if name.split(":")[0] == "gpu")


@dataclass(frozen=True, kw_only=True)
class NodeReservation(Declared):
    """Nodes kept for some from one time to another (scontrol show reservation). Both times have a zone."""

    noun = "key of a reservation"
    title = "Reservation"

    name: str
    start: Annotated[datetime, SlurmKey("StartTime", _NOT_KEPT)]
    end: Annotated[datetime, SlurmKey("EndTime", _NOT_KEPT)]
    nodes: Annotated[tuple[str, ...], SlurmKey("Nodes", _NOT_KEPT)] = ()
    users: Annotated[tuple[str, ...], SlurmKey("Users", _NOT_KEPT)] = ()
    accounts: Annotated[tuple[str, ...], SlurmKey("Accounts", _NOT_KEPT)] = ()
    flags: Annotated[tuple[str, ...], SlurmKey("Flags", _NOT_KEPT)] = ()


@dataclass(frozen=True, kw_only=True)
class Ignored(Declared):
    """A key that was read and is not replayed, and what that may change."""

    noun = "key of what is ignored"
    title = "Ignored"

    key: str
    value: str
    effect: str


@dataclass(frozen=True, kw_only=True)
class SiteRules(Declared):
    """All that a site declares. The names inside each table differ (`check_site`)."""

    noun = "table of a site"

    name: str = ""
    priority: PriorityRules = field(default_factory=PriorityRules)
    scheduler: SchedulerRules = field(default_factory=SchedulerRules)
    preemption: PreemptionRules = field(default_factory=PreemptionRules)
    qos: tuple[Qos, ...] = ()
    accounts: tuple[Account, ...] = ()
    users: tuple[User, ...] = ()
    partitions: tuple[Partition, ...] = ()
    nodes: tuple[Nodes, ...] = ()
    reservations: tuple[NodeReservation, ...] = ()
    ignored: tuple[Ignored, ...] = ()

    def __post_init__(self) -> None:
        """Raise BadInputError for a value that its field does not allow, and for what contradicts."""
        super().__post_init__()
        check_site(self, ROOT)
