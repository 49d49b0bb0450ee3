"""Answers that need several replays: least nodes by both sides of the bound, what a part changes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline.planning.plan_rows import PlanTable
from pipeline.planning.planned_run import PlannedRun
from pipeline.planning.replays import Replayed
from pipeline.planning.size_search import NodeSearch, SizeSearch


@dataclass(frozen=True)
class PlanAnswer:
    """One question, its answer in a sentence, and the numbers of it.

    `kind` is "nodes" (how many keep the limit) or what a part calls its own; `pool` is "cluster", a virtual
    cluster or a part's.
    `command` repeats the replay that the answer stands on, `fewer` is the replay on the other side of the
    bound.
    """

    kind: str
    pool: str
    variant: str
    question: str
    answer: str
    figures: Mapping[str, Any] = field(default_factory=dict)
    command: str | None = None
    fewer: Mapping[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as JSON has it."""
        return {
            "kind": self.kind,
            "pool": self.pool,
            "variant": self.variant,
            "question": self.question,
            "answer": self.answer,
            **self.figures,
            "command": self.command,
            "fewer": None if self.fewer is None else dict(self.fewer),
        }


CLUSTER = "cluster"


@dataclass(frozen=True)
class Questions:
    """Asks replays what operators ask; `table` judges them."""

    search: SizeSearch
    table: PlanTable

    # -- how many nodes --------------------------------------------------------------------------------------

    def nodes_of_cluster(self, run: PlannedRun, start: int) -> PlanAnswer:
        """Ask how many nodes of the whole cluster, in proportion, keep the limit.

        `nodes_low` is the least size with an interval that reaches below the limit, `nodes_high` the least
        with its whole interval below: between them the log's days are too few to decide.
        """
        table, target = self.table, self.search.target
        search = self.search.of_cluster(run, start, lambda replay: target.of(replay.waits_s))
        present = sum(self.table.log.present.values())
        question = (
            f"How many nodes of the cluster keep the {target.words} at {target.limit_s:,.0f} s or less?"
        )
        if search.answer is None:
            return PlanAnswer(
                "nodes", CLUSTER, run.variant, question, *self._unreachable(run, search, present)
            )
        by_bound = {
            f"nodes_{name}": self.search.of_cluster(run, search.answer, _bound(table, name)).answer
            for name in ("low", "high")
        }
        replayed = self._replayed(self.search.sized(run, search.answer))
        return PlanAnswer(
            "nodes",
            CLUSTER,
            run.variant,
            question,
            self._sentence(search.answer, present, replayed),
            {**self._size_figures(search, present), **by_bound, **self._wait_figures(replayed)},
            table.command_of(replayed.run),
            self._fewer(search, lambda size: self.search.sized(run, size)),
        )

    def nodes_of_virtual_clusters(self, run: PlannedRun) -> list[PlanAnswer]:
        """Ask the same of each virtual cluster, by its own jobs alone, and of all of them together."""
        search, target = self.search, self.search.target
        names = search.with_jobs()
        if len(names) < 2:
            return []
        independent = search.are_independent(run)
        searches = search.of_virtual_clusters(run, independent=independent)
        nodes = search.present_or_least()
        answered = {name: found.answer for name, found in searches.items() if found.answer is not None}
        together = self._replayed(run.on({**nodes, **answered}))
        answers = [
            self._of_virtual_cluster(run, name, found, independent=independent, together=together)
            for name, found in searches.items()
        ]
        holding = [name for name in answered if target.holds(search.wait_in(together, name))]
        how = (
            "They wait alike whatever the size of the others: the answers hold together."
            if len(holding) == len(answered)
            else f"They share nodes: together only {len(holding)} of {len(answered)} keep the limit."
        )
        total = together.run.total_nodes
        present = sum(self.table.log.present.values())
        answers.append(
            PlanAnswer(
                "nodes",
                "all virtual clusters",
                run.variant,
                f"How many nodes keep the {target.words} of each virtual cluster at {target.limit_s:,.0f} s?",
                f"{total:,} nodes ({total - present:+,}), each virtual cluster with its own answer. {how}",
                {
                    "nodes": total if len(answered) == len(searches) else None,
                    "present_nodes": present,
                    "change_nodes": total - present,
                    "independent": independent,
                    "hold_together": len(holding) == len(searches),
                    "virtual_clusters": dict(together.run.nodes),
                    **self._wait_figures(together),
                },
                self.table.command_of(together.run),
            )
        )
        return answers

    def _of_virtual_cluster(
        self, run: PlannedRun, name: str, search: NodeSearch, *, independent: bool, together: Replayed
    ) -> PlanAnswer:
        target, nodes = self.search.target, self.search.present_or_least()
        present = self.table.log.present[name]
        question = (
            f"How many nodes of virtual cluster {name} keep its {target.words} at {target.limit_s:,.0f} s?"
        )
        if search.answer is None:
            return PlanAnswer("nodes", name, run.variant, question, *self._unreachable(run, search, present))
        replayed = together if independent else self._replayed(run.on({**nodes, name: search.answer}))
        wait_s = self.search.wait_in(replayed, name)

        def smaller(size: int) -> PlannedRun:
            return run.on({**(replayed.run.nodes if independent else nodes), name: size})

        return PlanAnswer(
            "nodes",
            name,
            run.variant,
            question,
            f"{search.answer:,} nodes ({search.answer - present:+,}): its {target.words} is {wait_s:,.1f} s.",
            {**self._size_figures(search, present), target.column: wait_s, "independent": independent},
            self.table.command_of(replayed.run),
            self._fewer(search, smaller, lambda each: self.search.wait_in(each, name)),
        )

    def _sentence(self, nodes: int, present: int, chosen: Replayed) -> str:
        target = self.search.target
        wait_s = target.of(chosen.waits_s)
        change = nodes - present
        verb = (
            "as many as now"
            if not change
            else f"{abs(change):,} {'more' if change > 0 else 'fewer'} than now"
        )
        return f"{nodes:,} nodes, {verb}: the {target.words} is {wait_s:,.1f} s."

    def _unreachable(
        self, run: PlannedRun, search: NodeSearch, present: int
    ) -> tuple[str, Mapping[str, Any]]:
        """Say that no number of nodes keeps the limit, and how that is known."""
        value_s = search.values[search.most]
        why = (
            "What is left is no want of GPUs: nodes boot first, or the policy decides by a clock or profiles."
        )
        sentence = (
            f"No number of nodes does. With {search.most:,}, as many as all jobs would need at once, the "
            f"{self.search.target.words} is still {value_s:,.0f} s. {why}"
        )
        return sentence, {"nodes": None, "present_nodes": present, "tried_nodes": search.most}

    def _size_figures(self, search: NodeSearch, present: int) -> dict[str, Any]:
        assert search.answer is not None  # noqa: S101 - the caller looked
        return {
            "nodes": search.answer,
            "present_nodes": present,
            "change_nodes": search.answer - present,
            "largest_job_needs": search.least,
            "larger_that_fail": sorted(
                size
                for size, value in search.values.items()
                if size > search.answer and not self.search.target.holds(value)
            ),
        }

    def _wait_figures(self, replayed: Replayed) -> dict[str, Any]:
        interval = self.table.interval(replayed)
        return {
            self.search.target.column: self.search.target.of(replayed.waits_s),
            "low": interval.low,
            "high": interval.high,
            "kwh": self.table.kwh(replayed),
            "cost": self.table.cost(replayed),
        }

    def _fewer(
        self,
        search: NodeSearch,
        smaller: Callable[[int], PlannedRun],
        measure: Callable[[Replayed], float] | None = None,
    ) -> dict[str, Any] | None:
        """Replay the size below the answer; None: the largest job needs the answer's."""
        assert search.answer is not None  # noqa: S101 - the caller looked
        if search.answer <= search.least:
            return None
        target = self.search.target
        replayed = self._replayed(smaller(search.answer - 1))
        wait_s = target.of(replayed.waits_s) if measure is None else measure(replayed)
        return {
            "nodes": search.answer - 1,
            target.column: wait_s,
            "holds": target.holds(wait_s),
            "command": self.table.command_of(replayed.run),
        }

    def _replayed(self, run: PlannedRun) -> Replayed:
        return self.search.replays.of([run])[0]

    # -- what a part changes ---------------------------------------------------------------------------------

    def sized(self, run: PlannedRun, size: int) -> Replayed:
        """Replay a run on so many nodes of the cluster, in proportion."""
        return self._replayed(self.search.sized(run, size))

    def changed(
        self,
        kind: str,
        question: str,
        answer: str,
        figures: Mapping[str, Any],
        replays: tuple[Replayed, Replayed],
    ) -> PlanAnswer:
        """Return how waits of a replay differ from those of its reference, which `answer` has a place for."""
        replayed, reference = replays
        added = {
            metric: self.table.change(metric, replayed, reference)
            for metric in dict.fromkeys(("mean", self.search.target.metric))
        }
        return PlanAnswer(
            kind,
            CLUSTER,
            replayed.run.variant,
            question,
            answer.format(f"{added['mean']['added_s']:,.1f} s{_between(added['mean'])}"),
            {**figures, "added_wait": added, **self._wait_figures(replayed)},
            self.table.command_of(replayed.run),
        )


def _bound(table: PlanTable, name: str) -> Callable[[Replayed], float]:
    """Return what measures a replay by one bound of its interval; without an interval by the metric."""

    def measure(replayed: Replayed) -> float:
        bound = getattr(table.interval(replayed), name)
        return table.target.of(replayed.waits_s) if bound is None else float(bound)

    return measure


def _between(change: Mapping[str, float | None]) -> str:
    low, high = change["low"], change["high"]
    return "" if low is None or high is None else f" ({low:,.1f} to {high:,.1f})"
