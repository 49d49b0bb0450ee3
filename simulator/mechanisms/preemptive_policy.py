"""What policies share that preempt running jobs for waiting ones of higher priority."""

from collections.abc import Callable
from typing import Any, ClassVar

from simulator.actions import Action
from simulator.column_rule import ColumnRule, PreemptionRule
from simulator.mechanisms.preemption import PreemptionSettings, preempt_to_fit, quota_walk
from simulator.policy import Policy
from simulator.snapshot import Snapshot


class PreemptivePolicy(Policy):
    """Ranks waiting jobs (`priority`) and running ones (`running_key`); the highest ranks hold the GPUs.

    `waiting_first`: of equal ranks waiting jobs go first when GPUs are handed out by quotas.
    """

    unequal_nodes = True
    Settings: type[PreemptionSettings] = PreemptionSettings
    waiting_first: ClassVar[bool] = False

    def __init__(self, settings: PreemptionSettings | None = None) -> None:
        self.settings: Any = settings or self.Settings()
        self.costs = self.settings.costs()

    def column_rule_by(self, threshold_gpu_s: float | None = None) -> ColumnRule | None:
        """Return what `column_rule` is to say, of a policy that ranks jobs as a `PreemptionRule` does."""
        if self.settings.selection != "fit":
            return None
        costs = self.costs
        return ColumnRule(
            preemption=PreemptionRule(threshold_gpu_s, self.round_s, costs.preemption_of, costs.completion_s)
        )

    def limits(self, now_s: float) -> Callable[[Any], Any]:
        """Return what turns a waiting job's priority into the running key of the same rank now."""
        return _same

    def decide(self, snapshot: Snapshot) -> list[Action]:
        """Give the GPUs of each changed pool to the jobs of highest rank."""
        now_s = snapshot.now_s
        limit_of = self.limits(now_s)
        actions: list[Action] = []
        for pool in snapshot.changed:
            if not len(pool.queue):
                continue
            if self.settings.selection == "fit":
                actions += preempt_to_fit(pool, now_s, limit_of)
            else:
                actions += quota_walk(pool, now_s, limit_of, waiting_first=self.waiting_first)
        return actions


def _same(priority: Any) -> Any:
    return priority
