"""The words of SchedulerParameters, and what leaving one out does to waits (slurm.conf(5) of Slurm 22.05)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cluster_logs.site.left_out import slurm_keys
from cluster_logs.site.rules import SchedulerRules
from cluster_logs.slurm_site.conf_text import Pair
from cluster_logs.slurm_site.key_account import KeyAccount
from cluster_logs.slurm_site.values import number, options


@dataclass(frozen=True, slots=True)
class _Range:
    """What Slurm takes of an option (`unit`: one in seconds or jobs); else it keeps its default."""

    low: float = 0
    high: float = float("inf")
    unit: float = 1.0


_NUMBERS: Mapping[str, _Range] = {
    "sched_interval": _Range(1),
    "sched_min_interval": _Range(unit=1e-6),
    "batch_sched_delay": _Range(),
    "default_queue_depth": _Range(),
    "partition_job_depth": _Range(),
    "bf_interval": _Range(1, 10_800),
    "bf_window": _Range(1, 43_200, unit=60.0),
    "bf_resolution": _Range(1, 3_600),
    "bf_max_time": _Range(1, 3_600),
    "bf_max_job_test": _Range(1, 1_000_000),
    "bf_max_job_user": _Range(),
    "bf_max_job_part": _Range(),
    "bf_max_job_start": _Range(0, 10_000),
    "bf_min_age_reserve": _Range(0, 2_592_000),
}
_SWITCHES = frozenset({"defer", "bf_continue", "assoc_limit_stop"})
# Read with PreemptParameters.
_ELSEWHERE = frozenset({"preempt_youngest_first", "preempt_reorder_count"})
# Words that do not change when a job starts.
_NO_EFFECT = frozenset(
    {"allow_zero_lic", "bb_array_stage_cnt", "bf_node_space_size", "build_queue_timeout"}
    | {"correspond_after_task_cnt", "disable_job_shrink", "disable_hetjob_steps", "enable_hetjob_steps"}
    | {"enable_job_state_cache", "ignore_prefer_validation", "max_array_tasks", "max_script_size"}
    | {"max_submit_line_size", "no_backup_scheduling", "no_env_cache", "salloc_wait_nodes"}
    | {"sbatch_wait_nodes", "spec_cores_first", "step_retry_count", "step_retry_time", "whole_hetjob"}
    | {"whole_pack", "extra_constraints"}
)
_EFFECTS: Mapping[str, str] = {
    "bf_allow_magnetic_resv": "jobs are drawn into magnetic reservations; in the replay they are not",
    "bf_busy_nodes": "planned jobs are given nodes in use first; in the replay where they start soonest",
    "bf_hetjob_immediate": "heterogeneous jobs start earlier; the replay has no such jobs",
    "bf_hetjob_prio": "heterogeneous jobs are ordered as one; the replay has no such jobs",
    "bf_job_part_count_reserve": "only so many jobs of a partition are planned for; in the replay all, so "
    "small jobs wait longer in it",
    "bf_licenses": "the backfill plans for licences; the replay has none",
    "bf_max_job_array_resv": "only so many tasks of an array are planned for; the replay plans for each",
    "bf_max_job_assoc": "only so many jobs of a user in an account are looked at in a cycle; the replay "
    "looks at more, so users with many jobs wait less in it",
    "bf_max_job_user_part": "only so many jobs of a user in a partition are looked at in a cycle; the replay "
    "looks at more, so users with many jobs wait less in it",
    "bf_min_prio_reserve": "nothing is planned for jobs below that priority; the replay plans for all, so "
    "small jobs wait longer in it and large ones of low priority less",
    "bf_one_resv_per_job": "a job of several partitions is planned for in one of them alone",
    "bf_running_job_reserve": "running jobs on whole nodes are planned for, too",
    "bf_topopt_enable": "starts may be delayed for a better place; in the replay they are not",
    "bf_topopt_iterations": "starts may be delayed for a better place; in the replay they are not",
    "bf_window_linear": "ends of running jobs are grouped more finely, so planned starts are sooner",
    "bf_yield_interval": "how long a backfill cycle takes; the replay's take no time",
    "bf_yield_sleep": "how long a backfill cycle takes; the replay's take no time",
    "bf_yield_rpc_cnt": "a busy controller ends a backfill cycle; in the replay none is busy",
    "defer_batch": "batch jobs are not looked at when they are submitted; in the replay they are",
    "delay_boot": "jobs wait so long for nodes that have their features booted",
    "enable_user_top": "users may put one of their jobs before their others",
    "ignore_constraint_validation": "jobs whose features no node has wait instead of being refused",
    "ignore_numa": "cores are chosen otherwise",
    "max_rpc_cnt": "a busy controller puts scheduling off; in the replay none is busy",
    "max_sched_time": "a scheduling cycle ends after so long; the replay's take no time",
    "max_switch_wait": "jobs wait so long for nodes below few switches; the replay knows no switches",
    "nohold_on_prolog_fail": "a job whose prolog failed is queued again; in the replay none fails",
    "pack_serial_at_end": "jobs of one core go to the last nodes, so whole nodes stay free more often",
    "preempt_send_user_signal": "a job that is preempted gets its signal earlier",
    "preempt_strict_order": "the jobs of least priority are preempted; the replay may choose others",
    "reduce_completing_frag": "what completes holds back its own partition alone, with CompleteWait",
    "requeue_delay": "a job that was requeued waits so long before it may start",
    "requeue_setup_env_fail": "a job whose environment failed is queued again; in the replay none fails",
    "sched_max_job_start": "a cycle of the main scheduler starts only so many jobs",
}
_UNKNOWN = "not known here: Slurm passes over it, or has it since a later version than 22.05"
_NO_MAIN_LOOP = "the main scheduler tests all jobs at no interval; the replay does, each minute"


def scheduler_options(pair: Pair | None, account: KeyAccount) -> dict[str, Any]:
    """Return the fields of SchedulerRules that a SchedulerParameters sets.

    The first of a word that is repeated holds, as in Slurm. Raises BadInputError for what is no number.
    """
    said: dict[str, Pair] = {}
    for option in options(pair):
        said.setdefault(option.key.lower(), option)
    of_option = {key.key: (name, key) for name, key in slurm_keys(SchedulerRules).items()}
    fields: dict[str, Any] = {}
    for name, option in said.items():
        if name in _NUMBERS:
            value = _number(name, option, account)
            if value is not None:
                fields[of_option[name][0]] = value
                account.holds(of_option[name][1])
        elif name in _SWITCHES:
            fields[of_option[name][0]] = True
            account.holds(of_option[name][1])
        elif name in _ELSEWHERE:
            account.modelled(name)
        elif name not in _NO_EFFECT:
            account.ignored(name, option.value or name, _EFFECTS.get(name, _UNKNOWN))
    if "bf_interval" in said and said["bf_interval"].value == "-1":
        # Jobs start in their order alone then, as under sched/builtin.
        fields["type"] = "builtin"
        account.modelled("bf_interval")
    return fields


def _number(name: str, option: Pair, account: KeyAccount) -> float | None:
    """Return the value of an option in seconds or jobs; None where Slurm keeps its default."""
    said = number(option)
    allowed = _NUMBERS[name]
    if allowed.low <= said <= allowed.high:
        return said * allowed.unit
    if said == -1 and name == "sched_interval":
        account.ignored(name, option.value, _NO_MAIN_LOOP)
    elif said != -1 or name != "bf_interval":
        taken = f"{allowed.low:g} to {allowed.high:,.0f}"
        account.ignored(name, option.value, f"Slurm takes {taken} and keeps its default; so does the replay")
    return None
