"""The settings of a slurm.conf that order jobs, look ahead and preempt, as a site declares them."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from cluster_logs.site.declared import Declared
from cluster_logs.site.left_out import slurm_keys
from cluster_logs.site.rules import PreemptionRules, PriorityRules, SchedulerRules, SlurmKey
from cluster_logs.slurm_site.conf_text import Pair
from cluster_logs.slurm_site.key_account import KeyAccount
from cluster_logs.slurm_site.scheduler_options import scheduler_options
from cluster_logs.slurm_site.values import (
    bad,
    flag,
    is_unlimited,
    minutes_as_s,
    options,
    plugin,
    preempt_mode,
    tres_weights,
    whole_number,
    words,
)

# What Slurm has for a time without an end where it must have one.
_ENDLESS_S = float(2**32)
_MOST_JOBS = 67_043_328  # MaxJobId: what MaxJobCount=INFINITE is
_ENFORCED = frozenset(
    {"associations", "limits", "qos", "safe", "wckeys", "all", "nojobs", "nosteps", "none", "1", "2"}
)


class Settings:
    """Settings by name in lower case; one that is taken is entered in the account of keys."""

    def __init__(self, pairs: Mapping[str, Pair], account: KeyAccount) -> None:
        self._pairs = dict(pairs)
        self._account = account
        self.taken: set[str] = set()

    def take(self, key: str | SlurmKey) -> Pair | None:
        """Return a setting that the declaration holds; None where the file does not have it."""
        held = SlurmKey(key) if isinstance(key, str) else key
        pair = self._pairs.get(held.key.lower())
        if pair is not None:
            self.taken.add(held.key.lower())
            self._account.holds(held)
        return pair

    def left(self) -> Iterator[Pair]:
        """Yield the settings that were not taken."""
        yield from (pair for key, pair in self._pairs.items() if key not in self.taken)

    def fields(self, kind: type[Declared], readers: Mapping[str, Callable[[Pair], Any]]) -> dict[str, Any]:
        """Return the fields of a declaration that the file sets, each by its reader."""
        found = ((name, self.take(slurm_keys(kind)[name]), read) for name, read in readers.items())
        return {name: read(pair) for name, pair, read in found if pair is not None}


def priority_rules(settings: Settings, account: KeyAccount) -> PriorityRules:
    """Return how waiting jobs are ordered. Raises BadInputError for a value that is none."""
    fields = settings.fields(
        PriorityRules,
        {
            "type": lambda pair: plugin(pair, "basic", "multifactor"),
            **dict.fromkeys(
                (
                    "weight_age",
                    "weight_assoc",
                    "weight_fair_share",
                    "weight_job_size",
                    "weight_partition",
                    "weight_qos",
                ),
                whole_number,
            ),
            "weight_tres": tres_weights,
            "max_age_s": _at_least_1_s,
            "decay_half_life_s": _endless_s,
            "calc_period_s": _at_least_1_s,
            "favor_small": flag,
        },
    )
    known = {
        slurm_keys(PriorityRules)[name].key.partition(": ")[2]: name
        for name in ("small_relative_to_time", "max_tres", "accrue_always")
    }
    for name, weight in list(fields.get("weight_tres", {}).items()):
        if weight < 0:
            del fields["weight_tres"][name]
            account.ignored(f"PriorityWeightTRES: {name}", f"{weight:g}", _NEGATIVE)
    flags = settings.take("PriorityFlags")
    for word in () if flags is None else words(flags):
        if word.upper() in known:
            fields[known[word.upper()]] = True
        elif word.upper() in ("NO_FAIR_TREE", "DEPTH_OBLIVIOUS"):  # the latter has an algorithm of its own
            fields["fair_tree"] = False
        if word.upper() not in {*known, "NO_FAIR_TREE", "FAIR_TREE"}:
            account.ignored(f"PriorityFlags: {word}", word, _FLAG_EFFECTS.get(word.upper(), _UNKNOWN_FLAG))
    return PriorityRules(**fields)


def scheduler_rules(settings: Settings, account: KeyAccount) -> SchedulerRules:
    """Return when and how far the schedulers look. Raises BadInputError for a value that is none."""
    fields = settings.fields(
        SchedulerRules,
        {
            "type": lambda pair: plugin(pair, "backfill", "builtin"),
            "over_time_limit_s": lambda pair: (
                _ENDLESS_S if is_unlimited(pair.value) else whole_number(pair) * 60.0
            ),
            "complete_wait_s": whole_number,
            "kill_wait_s": whole_number,
            "default_cpus_per_gpu": whole_number,
            "max_jobs": lambda pair: _MOST_JOBS if is_unlimited(pair.value) else max(1, whole_number(pair)),
        },
    )
    fields |= _job_defaults(settings, account)
    if (enforced := settings.take("AccountingStorageEnforce")) is not None:
        said = {word.lower() for word in words(enforced)}
        if unknown := said - _ENFORCED:
            raise bad(enforced, f"has {min(unknown)!r}, which Slurm does not know")
        fields["enforce_limits"] = bool(said & {"limits", "safe", "all"})
        fields["enforce_qos"] = bool(said & {"qos", "all"})
        if said & {"safe", "all"}:
            account.ignored("AccountingStorageEnforce: safe", "safe", _SAFE)
    fields |= scheduler_options(settings.take("SchedulerParameters"), account)
    return SchedulerRules(**fields)


def preemption_rules(settings: Settings, account: KeyAccount) -> PreemptionRules:
    """Return which jobs may stop which others. Raises BadInputError for a value that is none."""
    fields = settings.fields(
        PreemptionRules,
        {
            "type": lambda pair: plugin(pair, "none", "qos", "partition_prio"),
            "mode": lambda pair: preempt_mode(pair) or "off",
            "exempt_time_s": lambda pair: minutes_as_s(pair) or 0.0,
        },
    )
    mode = settings.take("PreemptMode")
    for word in () if mode is None else words(mode):
        if word.upper() in ("GANG", "WITHIN"):
            account.ignored(f"PreemptMode: {word.upper()}", word, _MODE_EFFECTS[word.upper()])
    # Slurm 22.05 has them as preempt_* in SchedulerParameters, later ones as words of their own.
    given = [(option, "") for option in options(settings.take("PreemptParameters"))]
    given += [(option, "preempt_") for option in options(settings.take("SchedulerParameters"))]
    for option, prefix in given:
        name = option.key.lower()
        if name == f"{prefix}youngest_first":
            fields["youngest_first"] = True
        elif name == f"{prefix}reorder_count":
            fields["reorder_count"] = whole_number(option)
        elif not prefix:
            account.ignored(f"PreemptParameters: {name}", option.value or name, _PREEMPT_EFFECT)
    return PreemptionRules(**fields)


def _job_defaults(settings: Settings, account: KeyAccount) -> dict[str, Any]:
    """Return what JobDefaults=DefCpuPerGPU=8,DefMemPerGPU=1000 gives jobs."""
    fields = {}
    for option in options(settings.take("JobDefaults")):
        if option.key.lower() == "defcpupergpu":
            fields["default_cpus_per_gpu"] = whole_number(option)
        else:
            account.ignored(option.key, option.value, _DEFAULT_MEMORY)
    return fields


def _endless_s(pair: Pair) -> float:
    seconds = minutes_as_s(pair)
    return _ENDLESS_S if seconds is None else seconds


def _at_least_1_s(pair: Pair) -> float:
    return max(1.0, _endless_s(pair))


_SAFE = (
    "a job waits in Slurm that could not end within GrpTRESMins of its account or QOS; the replay starts it"
)
_DEFAULT_MEMORY = (
    "a job that asked for no memory gets this much; the replay takes what the log says, so a node may hold "
    "more jobs"
)
_NEGATIVE = "jobs come later the more of it they ask for; in the replay it has no weight"
_PREEMPT_EFFECT = "other jobs may be chosen to be stopped"
_UNKNOWN_FLAG = "Slurm 22.05 does not know this flag, and passes over it"
_FLAG_EFFECTS = {
    "CALCULATE_RUNNING": "ages and sizes of running jobs are calculated again: matters for preemption alone",
    "DEPTH_OBLIVIOUS": "fair share is weighed alike at each depth of the tree; the replay takes the plain "
    "(not fair tree) shares, and orders users of deep accounts otherwise",
    "INCR_ONLY": "a job's priority only grows in Slurm; in the replay it falls when its user has run jobs",
    "NO_NORMAL_ALL": "the factors are not divided by their largest; weights then count for much more",
    "NO_NORMAL_ASSOC": "the factor of the association is not divided by its largest",
    "NO_NORMAL_PART": "the factor of the partition is not divided by its largest",
    "NO_NORMAL_QOS": "the factor of the QOS is not divided by its largest",
    "NO_NORMAL_TRES": "the factors of TRES are not divided by their largest",
}
_MODE_EFFECTS = {
    "GANG": "jobs that share nodes run in turns (SchedulerTimeSlice); the replay runs each through",
    "WITHIN": "jobs of one QOS may preempt each other; the replay preempts across QOS alone",
}
