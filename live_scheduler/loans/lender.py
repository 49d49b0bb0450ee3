"""Lends inference's nodes to training jobs and takes them back, one look at the cluster after the other.

Numbers and choices are those that the simulator replays (`simulator/loaning/`), on the same clock: something
is decided every `period_s`. What was begun is carried on at every look, by the record of loans, so that a
daemon that comes back goes on where another was killed.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Protocol

from foundation.errors import LucidError
from live_scheduler.loans.giving_back import LoansBack, give_back
from live_scheduler.loans.loan_plan import LoanLimits, LoanPlan, PlannedServer, plan_loans
from live_scheduler.loans.loan_record import LoanRecord, LoanStep
from live_scheduler.loans.loan_view import NodeLoanView, NodeOnLoan
from live_scheduler.loans.node_loans import LoanNode, LoanReading, LoanRefusal, NodeLoans, Side
from live_scheduler.loans.settings import NodeLoanSettings
from live_scheduler.loans.usage import ForecastInUse, InferenceUsage
from live_scheduler.mode import Mode
from live_scheduler.release import LiveRelease
from simulator.loaning.forecast import UsageForecaster
from simulator.loaning.settings import LoanSettings

logger = logging.getLogger("lucid.live")


class LoanSafety(Protocol):
    """What stands between the lender and the nodes (`live_scheduler.safety.safety_net.SafetyNet`)."""

    @property
    def loan_record(self) -> LoanRecord:
        """The nodes that are not the lender's by this product's hand."""
        ...

    def allow_loans(self, nodes: Sequence[str]) -> Sequence[str]:
        """Return the nodes that may be moved now, the first ones."""
        ...

    def before_loans(self, nodes: Sequence[str], step: LoanStep, at_s: float, why: str) -> None:
        """Write down what is about to be done with nodes; raises ServiceUnavailableError: then it may not."""
        ...


@dataclass(frozen=True)
class LoansOfRelease:
    """What a release says of loans: its forecast of usage, and its settings as they are pinned."""

    forecaster: UsageForecaster | None = None
    settings: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, release: LiveRelease | None) -> "LoansOfRelease":
        """Return what a release says."""
        if release is None:
            return cls()
        return cls(release.scorers.inference_load, release.manifest.loaning)


class NodeLender:
    """One cluster's nodes on loan. `view` is the last look; read it from any thread."""

    def __init__(
        self, loans: NodeLoans, settings: NodeLoanSettings, usage: InferenceUsage, safety: LoanSafety
    ) -> None:
        """Nothing is read or asked yet."""
        self._loans, self._settings, self._usage, self._safety = loans, settings, usage, safety
        self._limits = LoanLimits(settings.least_kept, settings.most_lent)
        self._decided_period: int | None = None
        self._read_s = -inf
        self._reclaimed_s = -inf
        self.view = NodeLoanView(0.0, settings.mode, settings.lender, settings.borrower)

    def look(self, now_s: float, released: LoansOfRelease) -> NodeLoanView:
        """Look at the nodes if it is time, and do what the mode allows. Never raises: see `problem`.

        `now_s` is Unix time by the cluster's clock.
        """
        returning = self._settings.mode is Mode.CONTROL and self._is_unfinished()
        if not returning and 0 <= now_s - self._read_s < self._settings.usage_every_s:
            return self.view
        self._read_s = now_s
        before = replace(self.view, at_s=now_s, problem=None, refused=(), deferred=0)
        try:
            self.view = self._look(now_s, released, before)
        except (LucidError, OSError) as error:
            self.view = replace(before, problem=str(error))
        except Exception as error:  # the queue goes on whatever becomes of loans
            logger.exception("no look at nodes on loan")
            self.view = replace(before, problem=f"Unexpected: {error!r}")
        if self.view.problem and self.view.problem != before.problem:
            logger.warning("nodes on loan: %s", self.view.problem)
        return self.view

    def _is_unfinished(self) -> bool:
        return any(note.step is LoanStep.TAKEN_BACK for note in self._safety.loan_record.values.values())

    def _look(self, now_s: float, released: LoansOfRelease, view: NodeLoanView) -> NodeLoanView:
        record, control = self._safety.loan_record, self._settings.mode is Mode.CONTROL
        reading = self._loans.read(tuple(record.values))
        if control and (unsettled := self._unsettled(reading)):
            view = _counted(view, give_back(self._loans, record, unsettled))
            reading = self._loans.read(tuple(record.values))
        in_force = self._settings.rules_in_force(released.settings)
        rules = in_force.loans
        forecast = ForecastInUse.of(in_force, released.forecaster)
        servers = self._servers(reading)
        busy = sum(node.busy for node in reading.nodes if Side.LENDER in node.sides and node.counts)
        up = sum(server.counts for server in servers)
        need, problem = self._usage.need(now_s, busy / up if up else 0.0, forecast)
        view = replace(view, rule=_rule_in_words(rules, forecast), problem=problem, servers=up)
        view = replace(view, usage=need.usage if need else None, forecast=need.forecast if need else None)
        if not up:
            problem = f"No node of the partition {self._settings.lender} is up."
            return replace(view, on_loan=self._on_loan(reading), problem=view.problem or problem)
        period = int(now_s // rules.period_s)
        if need is None or period == self._decided_period:
            return replace(view, on_loan=self._on_loan(reading))
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

    def _follow(self, view: NodeLoanView, plan: LoanPlan, now_s: float) -> NodeLoanView:
        """Do what the plan says, as far as the mode and the rate limit allow."""
        view = replace(
            view,
            needed=plan.needed,
            headroom=plan.headroom,
            target=plan.target,
            short=plan.short,
            reasons=plan.sentences,
        )
        if plan.lend or plan.take_back:
            view = replace(
                view, lend=plan.lend, take_back=plan.take_back, preempt=plan.preempts, decided_s=now_s
            )
            logger.info("%s (%s)", view.describe_wanted(), plan.sentences[0])
        if self._settings.mode is Mode.CONTROL:
            wanted = (*plan.take_back, *plan.lend)
            allowed = set(self._safety.allow_loans(wanted))
            view = replace(view, deferred=len(wanted) - len(allowed))
            if take_back := [name for name in plan.take_back if name in allowed]:
                self._reclaimed_s = now_s
                view = self._take_back(view, take_back, now_s, plan)
            if lend := [name for name in plan.lend if name in allowed]:
                view = self._lend(view, lend, now_s, plan)
        return replace(view, on_loan=self._on_loan(self._loans.read(tuple(self._safety.loan_record.values))))

    def _lend(self, view: NodeLoanView, names: Sequence[str], now_s: float, plan: LoanPlan) -> NodeLoanView:
        """Lend idle nodes: out of the lender's partition, a look whether they still are, and in."""
        self._safety.before_loans(names, LoanStep.LENT, now_s, plan.sentences[0])
        refused = self._loans.leave(Side.LENDER, names)
        seen = self._loans.read(names).of(names)
        free = [node.name for node in seen if not (node.sides or node.busy or node.fixed) and node.counts]
        others = [name for name in names if name not in free]
        if others:  # inference was quicker
            self._safety.before_loans(others, LoanStep.TAKEN_BACK, now_s, "it was not idle any more")
            refused += give_back(self._loans, self._safety.loan_record, others).refused
        if free:
            refused += self._loans.join(Side.BORROWER, free)
        return _refused(replace(view, lent=view.lent + len(free)), refused)

    def _take_back(
        self, view: NodeLoanView, names: Sequence[str], now_s: float, plan: LoanPlan
    ) -> NodeLoanView:
        """Take nodes back; one on which a job has started that is to be left alone stays on loan."""
        record = self._safety.loan_record
        notes = dict(record.values)
        self._safety.before_loans(names, LoanStep.TAKEN_BACK, now_s, plan.sentences[0])
        refused = self._loans.leave(Side.BORROWER, names)
        seen = self._loans.read(names).of(names)
        spared = [node.name for node in seen if node.fixed and node.counts and not node.sides]
        for name in spared:
            since_s, why = (notes[name].at_s, notes[name].why) if name in notes else (now_s, "")
            self._safety.before_loans([name], LoanStep.LENT, since_s, why)
        if spared:
            refused += self._loans.join(Side.BORROWER, spared)
        back = give_back(self._loans, record, [name for name in names if name not in spared])
        return _refused(_counted(view, back), refused)

    def _unsettled(self, reading: LoanReading) -> list[str]:
        """Return the nodes on record that are on their way back, or not wholly on loan: one was killed."""
        seen = reading.by_name
        return [
            name
            for name, note in self._safety.loan_record.values.items()
            if note.step is LoanStep.TAKEN_BACK or name not in seen or not seen[name].on_loan
        ]

    def _servers(self, reading: LoanReading) -> list[PlannedServer]:
        """Return inference's nodes: the lender's, and those on loan. Nodes of the borrower's own are not."""
        notes = self._safety.loan_record.values
        return [
            _server(node, on_loan=node.name in notes and Side.LENDER not in node.sides)
            for node in reading.nodes
            if node.name in notes or Side.LENDER in node.sides
        ]

    def _on_loan(self, reading: LoanReading) -> tuple[NodeOnLoan, ...]:
        seen = reading.by_name
        return tuple(
            NodeOnLoan(
                name,
                note.at_s,
                note.why,
                tuple(sorted((*seen[name].gpus_of, *seen[name].fixed))) if name in seen else (),
                returning=note.step is LoanStep.TAKEN_BACK,
            )
            for name, note in self._safety.loan_record.values.items()
        )


def _rule_in_words(rules: LoanSettings, forecast: ForecastInUse) -> str:
    return f"lend {rules.lend}, reclaim {rules.reclaim}, headroom {rules.headroom:g}, {forecast.describe()}"


def _server(node: LoanNode, *, on_loan: bool) -> PlannedServer:
    # A job without GPUs is a job all the same: it counts as one that holds a GPU.
    base = {job: max(1, gpus) for job, gpus in node.gpus_of.items()}
    may_move = not node.fixed if on_loan else node.idle
    return PlannedServer(node.name, node.gpus, on_loan, base, counts=node.counts, may_move=may_move)


def _counted(view: NodeLoanView, back: LoansBack) -> NodeLoanView:
    return _refused(
        replace(
            view,
            taken_back=view.taken_back + len(back.back),
            preempted=view.preempted + len(back.requeued),
        ),
        back.refused,
    )


def _refused(view: NodeLoanView, refused: Sequence[LoanRefusal]) -> NodeLoanView:
    for refusal in refused:
        logger.warning("refused: %s: %s", refusal.what, refusal.why)
    return replace(view, refused=(*view.refused, *refused))
