"""Lends inference's nodes to training jobs and takes them back, one look at the cluster after the other.

Numbers and choices are those that the simulator replays (`parts/lending/replay/`), on the same clock:
something is decided every `period_s`. What was begun is carried on at every look, by the record of loans,
so that a daemon that comes back goes on where another was killed.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf

from live_scheduler.capability import look_at_nodes
from live_scheduler.cluster_state import ClusterState
from live_scheduler.live_settings import Mode
from live_scheduler.release import LiveRelease, Pinned
from live_scheduler.safety.control_lease import ControlLease
from live_scheduler.safety.rate_limit import TokenBucket
from parts.lending.live.giving_back import LoanRecord, LoansBack, LoanStep, give_back
from parts.lending.live.loan_messages import LoanedNode, LoanStatus
from parts.lending.live.loan_plan import LoanLimits, LoanPlan, PlannedServer, plan_loans
from parts.lending.live.node_loans import LoanNode, LoanReading, LoanRefusal, NodeLoans, Side
from parts.lending.live.settings import NodeLoanSettings
from parts.lending.live.usage import ForecastInUse, InferenceUsage
from parts.lending.replay.forecast import UsageForecaster
from parts.lending.replay.settings import LoanSettings

logger = logging.getLogger("lucid.live")


class NodeLender:
    """One cluster's nodes on loan. `view` is the last look (None: none yet); read it from any thread."""

    def __init__(
        self,
        loans: NodeLoans,
        settings: NodeLoanSettings,
        usage: InferenceUsage,
        lease: ControlLease,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing is read or asked yet; `clock` is monotonic, in seconds."""
        self._loans, self._settings, self._usage, self._lease = loans, settings, usage, lease
        self._rate = TokenBucket(settings.nodes_per_minute, settings.nodes_per_minute, clock=clock)
        self._limits = LoanLimits(settings.least_kept, settings.most_lent)
        self._decided_period: int | None = None
        self._read_s = -inf
        self._reclaimed_s = -inf
        self.view: LoanStatus | None = None

    def after_decision(self, cluster: ClusterState, release: LiveRelease) -> None:
        """Look at the nodes by what a release says of loans; never raises."""
        self.look(cluster.at_s, release.pinned("inference_load", "loaning"))

    def look(self, now_s: float, pinned: Pinned[UsageForecaster]) -> None:
        """Look at the nodes if it is time, and do what the mode allows. Never raises: see `view.problem`.

        `now_s` is Unix time by the cluster's clock, `pinned` what the release says of loans.
        """
        settings = self._settings
        returning = settings.mode is Mode.CONTROL and self._is_unfinished()
        if not returning and 0 <= now_s - self._read_s < settings.usage_every_s:
            return
        self._read_s = now_s
        last = self.view or LoanStatus(
            mode=settings.mode.value, lender=settings.lender, borrower=settings.borrower, rule="", at_s=now_s
        )
        self.view = look_at_nodes(
            last, now_s, lambda before: self._look(now_s, pinned, before), "nodes on loan"
        )

    @property
    def _record(self) -> LoanRecord:
        return self._lease.record(LoanRecord)

    def _leave_word(self, nodes: Sequence[str], step: LoanStep, at_s: float, why: str) -> None:
        with self._lease.before_change():
            self._record.note(nodes, step, at_s, why)

    def _is_unfinished(self) -> bool:
        return any(note.step is LoanStep.TAKEN_BACK for note in self._record.values.values())

    def _look(self, now_s: float, pinned: Pinned[UsageForecaster], view: LoanStatus) -> LoanStatus:
        record, control = self._record, self._settings.mode is Mode.CONTROL
        reading = self._loans.read(tuple(record))
        if control and (unsettled := self._unsettled(reading)):
            view = _counted(view, give_back(self._loans, record, unsettled))
            reading = self._loans.read(tuple(record))
        in_force = self._settings.rules_in_force(pinned.settings)
        rules = in_force.loans
        forecast = ForecastInUse.of(in_force, pinned.forecaster)
        servers = self._servers(reading)
        busy = sum(node.busy for node in reading.nodes if Side.LENDER in node.sides and node.counts)
        up = sum(server.counts for server in servers)
        need, problem = self._usage.need(now_s, busy / up if up else 0.0, forecast)
        view = view.with_changes(rule=_rule_in_words(rules, forecast), problem=problem, servers=up)
        view = view.with_changes(usage=need.usage if need else None, forecast=need.forecast if need else None)
        if not up:
            problem = f"No node of the partition {self._settings.lender} is up."
            return view.with_changes(on_loan=self._on_loan(reading), problem=view.problem or problem)
        period = int(now_s // rules.period_s)
        if need is None or period == self._decided_period:
            return view.with_changes(on_loan=self._on_loan(reading))
        self._decided_period = period
        plan = plan_loans(
            servers,
            need,
            replace(rules, seed=(rules.seed + period) % 10_000_000),
            self._limits,
            wanted_gpus=reading.wanted_gpus,
            since_reclaim_s=now_s - self._reclaimed_s,
        )
        return self._follow(view, plan, now_s)

    def _follow(self, view: LoanStatus, plan: LoanPlan, now_s: float) -> LoanStatus:
        """Do what the plan says, as far as the mode and the rate limit allow."""
        view = view.with_changes(
            needed=plan.needed,
            headroom=plan.headroom,
            target=plan.target,
            short=plan.short,
            reasons=plan.sentences,
        )
        if plan.lend or plan.take_back:
            view = view.with_changes(
                lend=plan.lend, take_back=plan.take_back, preempts=plan.preempts, decided_s=now_s
            )
            logger.info("%s (%s)", view.describe_wanted(), plan.sentences[0])
        if self._settings.mode is Mode.CONTROL:
            wanted = (*plan.take_back, *plan.lend)
            allowed = set(self._rate.take_first(wanted))
            view = view.with_changes(deferred=len(wanted) - len(allowed))
            if take_back := [name for name in plan.take_back if name in allowed]:
                self._reclaimed_s = now_s
                view = self._take_back(view, take_back, now_s, plan)
            if lend := [name for name in plan.lend if name in allowed]:
                view = self._lend(view, lend, now_s, plan)
        reading = self._loans.read(tuple(self._record))
        return view.with_changes(on_loan=self._on_loan(reading))

    def _lend(self, view: LoanStatus, names: Sequence[str], now_s: float, plan: LoanPlan) -> LoanStatus:
        """Lend idle nodes: out of the lender's partition, a look whether they still are, and in."""
        self._leave_word(names, LoanStep.LENT, now_s, plan.sentences[0])
        refused = self._loans.leave(Side.LENDER, names)
        seen = self._loans.read(names).of(names)
        free = [node.name for node in seen if not (node.sides or node.busy or node.fixed) and node.counts]
        others = [name for name in names if name not in free]
        if others:  # inference was quicker
            self._leave_word(others, LoanStep.TAKEN_BACK, now_s, "it was not idle any more")
            refused += give_back(self._loans, self._record, others).refused
        if free:
            refused += self._loans.join(Side.BORROWER, free)
        return _refused(view.with_changes(lent=view.lent + len(free)), refused)

    def _take_back(self, view: LoanStatus, names: Sequence[str], now_s: float, plan: LoanPlan) -> LoanStatus:
        """Take nodes back; one on which a job has started that is to be left alone stays on loan."""
        record = self._record
        notes = dict(record.values)
        self._leave_word(names, LoanStep.TAKEN_BACK, now_s, plan.sentences[0])
        refused = self._loans.leave(Side.BORROWER, names)
        seen = self._loans.read(names).of(names)
        spared = [node.name for node in seen if node.fixed and node.counts and not node.sides]
        for name in spared:
            since_s, why = (notes[name].at_s, notes[name].why) if name in notes else (now_s, "")
            self._leave_word([name], LoanStep.LENT, since_s, why)
        if spared:
            refused += self._loans.join(Side.BORROWER, spared)
        back = give_back(self._loans, record, [name for name in names if name not in spared])
        return _refused(_counted(view, back), refused)

    def _unsettled(self, reading: LoanReading) -> list[str]:
        """Return the nodes on record that are on their way back, or not wholly on loan: one was killed."""
        seen = reading.by_name
        return [
            name
            for name, note in self._record.values.items()
            if note.step is LoanStep.TAKEN_BACK or name not in seen or not seen[name].on_loan
        ]

    def _servers(self, reading: LoanReading) -> list[PlannedServer]:
        """Return inference's nodes: the lender's, and those on loan. Nodes of the borrower's own are not."""
        notes = self._record.values
        return [
            _server(node, on_loan=node.name in notes and Side.LENDER not in node.sides)
            for node in reading.nodes
            if node.name in notes or Side.LENDER in node.sides
        ]

    def _on_loan(self, reading: LoanReading) -> tuple[LoanedNode, ...]:
        seen = reading.by_name
        return tuple(
            LoanedNode(
                node=name,
                since_s=note.at_s,
                why=note.why,
                jobs=tuple(sorted((*seen[name].gpus_of, *seen[name].fixed))) if name in seen else (),
                returning=note.step is LoanStep.TAKEN_BACK,
            )
            for name, note in self._record.values.items()
        )


def _rule_in_words(rules: LoanSettings, forecast: ForecastInUse) -> str:
    return f"lend {rules.lend}, reclaim {rules.reclaim}, headroom {rules.headroom:g}, {forecast.describe()}"


def _server(node: LoanNode, *, on_loan: bool) -> PlannedServer:
    # A job without GPUs is a job all the same: it counts as one that holds a GPU.
    base = {job: max(1, gpus) for job, gpus in node.gpus_of.items()}
    may_move = not node.fixed if on_loan else node.idle
    return PlannedServer(node.name, node.gpus, on_loan, base, counts=node.counts, may_move=may_move)


def _counted(view: LoanStatus, back: LoansBack) -> LoanStatus:
    return _refused(
        view.with_changes(
            taken_back=view.taken_back + len(back.back),
            preempted=view.preempted + len(back.requeued),
        ),
        back.refused,
    )


def _refused(view: LoanStatus, refused: Sequence[LoanRefusal]) -> LoanStatus:
    for refusal in refused:
        logger.warning("refused: %s: %s", refusal.what, refusal.why)
    return view.with_changes(refused=view.refused | {str(each.what): each.why for each in refused})
