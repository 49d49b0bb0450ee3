"""Nodes on loan on Slurm: a node leaves one partition and joins another by `scontrol update PartitionName`.

What this relies on, each seen on Slurm 22.05:

- A partition may have no node, in slurm.conf too. Jobs that were submitted to it alone wait
  (`PartitionConfig`); those of several partitions run in another meanwhile.
- A partition's nodes are set as a whole (`Nodes+=` is refused): it is read just before it is written.
- What runs on a node that leaves its partition goes on, and no job starts there any more.
- A requeued job has all its partitions again, and would wait two minutes (`StartTime=now` ends that; Slurm
  obeys it and says that it does not, where the job's only partition is empty).
- A slurmctld that restarts has the partitions of slurm.conf: every node is the lender's again.

Nothing here goes through a shell, and no name reaches Slurm that could be an option or a list.
"""

import re
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from cluster_logs.host_lists import expand_hosts
from foundation.errors import BadInputError
from live_scheduler.cluster_state import PoweredNode
from live_scheduler.live_settings import LiveSettings
from live_scheduler.slurm.commands import call, change_cluster
from live_scheduler.slurm.control import START_DELAY_S
from live_scheduler.slurm.node_reading import POWER_COMMAND, parse_power, read_nodes, reserved_nodes
from live_scheduler.slurm.placement import Placements
from live_scheduler.slurm.queue_reading import QueueReader, QueueRow
from live_scheduler.slurm.scontrol_session import ScontrolSession
from parts.lending.live.node_loans import LoanNode, LoanReading, LoanRefusal, Side
from parts.lending.live.settings import NodeLoanSettings

_READ_LIMIT_S, _ASK_LIMIT_S = 20.0, 60.0
_NODE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")
_JOB_ID = re.compile(r"[0-9]+(?:_[0-9]+)?")
_NODES = re.compile(r"(?:^|\s)Nodes=(\S+)")
_NODE_FACTS = {name: re.compile(rf"(?:^|\s){name}=(\S+)") for name in ("State", "Gres")}


class SlurmNodeLoans:
    """Two partitions of the cluster that SLURM_CONF names (`parts.lending.live.node_loans.NodeLoans`)."""

    def __init__(self, lender: str, borrower: str, never_lent: Sequence[str] = ()) -> None:
        """Nothing is asked yet; `never_lent` are host lists of nodes that count as never idle."""
        self._partition_of = {Side.LENDER: lender, Side.BORROWER: borrower}
        self._never_lent = frozenset(name for each in never_lent for name in expand_hosts(each))
        self._queue, self._placements = QueueReader(), Placements()

    def read(self, also: Collection[str] = ()) -> LoanReading:
        """Return the nodes of both partitions, and of `also` those that there are, as they are now."""
        reservations = call(["scontrol", "--oneliner", "show", "reservation"], limit_s=_READ_LIMIT_S)
        untouchable = self._never_lent | reserved_nodes(reservations)
        nodes = parse_power(call(POWER_COMMAND, limit_s=_READ_LIMIT_S).splitlines(), untouchable)
        sides = {partition: side for side, partition in self._partition_of.items()}
        members = {
            node: frozenset(sides[name] for name in node.partitions if name in sides) for node in nodes
        }
        mine = {node: of for node, of in members.items() if of or node.name in also}
        # sinfo does not list a node that no partition has.
        lost = set(also) - {node.name for node in nodes}
        mine |= {node: frozenset() for name in sorted(lost) if (node := _node_by_itself(name)) is not None}
        rows = self._placements.place(
            self._queue.read(read_nodes(_READ_LIMIT_S).kinds, _READ_LIMIT_S), _READ_LIMIT_S
        )
        borrowing, fixed, lending = self._jobs_by_node(rows)
        return LoanReading(
            time.time(),
            tuple(
                LoanNode(
                    node.name,
                    node.gpus,
                    of,
                    counts=node.counts,
                    idle=node.may_sleep,
                    busy=node.busy or node.name in lending,
                    gpus_of=borrowing.get(node.name, {}),
                    fixed=tuple(fixed.get(node.name, ())),
                )
                for node, of in mine.items()
            ),
            self._wanted_gpus(rows),
        )

    def join(self, side: Side, nodes: Sequence[str]) -> list[LoanRefusal]:
        """Add nodes to a partition."""
        present = self._nodes_of(side)
        return self._set(side, present, [*present, *(name for name in nodes if name not in present)])

    def leave(self, side: Side, nodes: Sequence[str]) -> list[LoanRefusal]:
        """Take nodes out of a partition; what runs there goes on."""
        present = self._nodes_of(side)
        return self._set(side, present, [name for name in present if name not in nodes])

    def requeue(self, job_ids: Sequence[str]) -> list[LoanRefusal]:
        """Stop runs, and let their jobs queue again, without the two minutes that Slurm has them wait."""
        sound = [job_id for job_id in job_ids if _JOB_ID.fullmatch(job_id)]
        refused = [LoanRefusal(each, "It is no job's number.") for each in job_ids if each not in sound]
        with ScontrolSession(_ASK_LIMIT_S) as session:
            answers = session.tell([f"requeue {job_id}" for job_id in sound])
            asked = [job_id for job_id, why in zip(sound, answers, strict=True) if not why]
            # What Slurm says of it is no measure of what it does; at worst the job waits the two minutes.
            session.tell([f"update JobId={job_id} StartTime=now+{START_DELAY_S}" for job_id in asked])
        return refused + [LoanRefusal(job, why) for job, why in zip(sound, answers, strict=True) if why]

    def _jobs_by_node(
        self, rows: Sequence[QueueRow]
    ) -> tuple[dict[str, dict[str, int]], dict[str, list[str]], set[str]]:
        """Return GPUs of the borrower's jobs that may be requeued, other jobs, and the lender's nodes in use.

        The lender's own jobs are no obstacle where its nodes stay its own.
        """
        lender, borrower = (self._partition_of[side] for side in (Side.LENDER, Side.BORROWER))
        awaited = {job_id for row in rows for job_id in row.waited_for}
        borrowing: dict[str, dict[str, int]] = {}
        fixed: dict[str, list[str]] = {}
        lending: set[str] = set()
        for row in rows:
            if row.ending or row.job.waiting:
                continue
            may_stop = row.may_requeue and not {row.raw_id, row.target, row.job.job_id} & awaited
            gpus_on = dict(row.job.gpus_on)
            for node in row.nodes:
                if row.job.partition == lender:
                    lending.add(node)
                elif row.job.partition == borrower and may_stop and _JOB_ID.fullmatch(row.target):
                    borrowing.setdefault(node, {})[row.target] = gpus_on.get(node, 0)
                else:
                    fixed.setdefault(node, []).append(row.job.job_id)
        return borrowing, fixed, lending

    def _wanted_gpus(self, rows: Sequence[QueueRow]) -> int:
        """Return the GPUs of jobs that wait for the borrower's partition, whichever others they may go to."""
        command = ["squeue", "--noheader", "--states=PENDING", "--format=%F"]
        command.append(f"--partition={self._partition_of[Side.BORROWER]}")
        waiting = set(call(command, limit_s=_READ_LIMIT_S).split())
        jobs = [row.job for row in rows if row.job.eligible and row.job.job_id.partition("_")[0] in waiting]
        return sum(job.gpus * job.tasks for job in jobs)

    def _nodes_of(self, side: Side) -> list[str]:
        command = ["scontrol", "--oneliner", "show", "partition", self._partition_of[side]]
        listed = _NODES.search(call(command, limit_s=_READ_LIMIT_S))
        return [] if listed is None or listed[1] == "(null)" else expand_hosts(listed[1])

    def _set(self, side: Side, present: Sequence[str], wanted: Sequence[str]) -> list[LoanRefusal]:
        if list(present) == list(wanted):
            return []
        for name in wanted:
            if not _NODE_NAME.fullmatch(name):
                return [LoanRefusal(side, f"{name!r} is no node's name.")]
        partition = self._partition_of[side]
        try:
            command = ["scontrol", "update", f"PartitionName={partition}", f"Nodes={','.join(wanted)}"]
            change_cluster(command, limit_s=_ASK_LIMIT_S)
        except BadInputError as error:
            return [LoanRefusal(side, str(error))]
        return []


def _node_by_itself(name: str) -> PoweredNode | None:
    """Return a node that is in no partition; None: there is none of that name."""
    if not _NODE_NAME.fullmatch(name):
        return None
    try:
        text = call(["scontrol", "--oneliner", "show", "node", name], limit_s=_READ_LIMIT_S)
    except BadInputError:
        return None
    facts: Mapping[str, str] = {
        fact: match[1] if (match := pattern.search(text)) else "" for fact, pattern in _NODE_FACTS.items()
    }
    return parse_power([f"{name}||{facts['State']}|{facts['Gres']}||"])[0]


def open_loans(settings: LiveSettings, _folder: Path) -> SlurmNodeLoans:
    """Return Slurm's partitions, by the names that the settings have (or had, for giving back)."""
    loans = settings.tables.get("loans") or NodeLoanSettings()
    return SlurmNodeLoans(loans.lender, loans.borrower, loans.never_lent)
