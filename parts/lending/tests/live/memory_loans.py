"""Two partitions in memory, with jobs on their nodes: what runs stays, and a requeued job is gone at once."""

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from parts.lending.live.giving_back import LoanRecord
from parts.lending.live.node_loans import LoanNode, LoanReading, LoanRefusal, Side


class BrokenOffError(BaseException):
    """The process is killed here."""


@dataclass
class MemoryLoans:
    """`sides` by node; `jobs` of the borrower: (GPUs by node, may be requeued); `serving`: by inference's."""

    sides: dict[str, set[Side]]
    jobs: dict[str, tuple[dict[str, int], bool]] = field(default_factory=dict)
    serving: set[str] = field(default_factory=set)
    down: set[str] = field(default_factory=set)
    wanted_gpus: int = 0
    requeued: list[str] = field(default_factory=list)
    calls: int = 0
    breaks_at: int | None = None  # before this call the process is killed
    starts_on_leaving: dict[str, str] = field(default_factory=dict)  # node -> the job that was quicker

    @classmethod
    def of(cls, count: int) -> "MemoryLoans":
        return cls({f"i{number}": {Side.LENDER} for number in range(1, count + 1)})

    def those(self, side: Side) -> list[str]:
        return [name for name, sides in self.sides.items() if sides == {side}]

    def read(self, also: Collection[str] = ()) -> LoanReading:
        self._call()
        return LoanReading(
            0.0,
            tuple(self._node(name) for name, sides in self.sides.items() if sides or name in also),
            self.wanted_gpus,
        )

    def join(self, side: Side, nodes: Sequence[str]) -> list[LoanRefusal]:
        self._call()
        for name in nodes:
            self.sides[name].add(side)
        return []

    def leave(self, side: Side, nodes: Sequence[str]) -> list[LoanRefusal]:
        self._call()
        for name in nodes:
            self.sides[name].discard(side)
            if name in self.starts_on_leaving:
                self.jobs[self.starts_on_leaving.pop(name)] = ({name: 8}, False)
        return []

    def requeue(self, job_ids: Sequence[str]) -> list[LoanRefusal]:
        self._call()
        for job_id in job_ids:
            assert self.jobs[job_id][1], f"job {job_id} must stay"
            del self.jobs[job_id]
        self.requeued += job_ids
        return []

    def _call(self) -> None:
        if self.breaks_at is not None and self.calls >= self.breaks_at:
            raise BrokenOffError
        self.calls += 1

    def _node(self, name: str) -> LoanNode:
        here = {job: gpus[name] for job, (gpus, _) in self.jobs.items() if name in gpus}
        return LoanNode(
            name,
            8,
            frozenset(self.sides[name]),
            counts=name not in self.down,
            idle=not here and name not in self.serving | self.down,
            busy=bool(here) or name in self.serving,
            gpus_of={job: gpus for job, gpus in here.items() if self.jobs[job][1]},
            fixed=tuple(job for job in here if not self.jobs[job][1]),
        )


@dataclass
class PlainLease:
    """A record without a dead man's switch."""

    loan_record: LoanRecord

    def record(self, kind: type[LoanRecord]) -> LoanRecord:
        return self.loan_record

    def before_change(self) -> AbstractContextManager[None]:
        return nullcontext()
