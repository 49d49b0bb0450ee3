"""The daemon is stopped, continued and killed at random moments: what is left on a real Slurm.

    python -m tests.slurm.way_back --rounds 100 --jobs 700 --seed 0

A round starts the live scheduler on a queue of waiting jobs, lets it write priorities and texts, and does one
of the things of `Mishap` to it. What waits is compared with the queue before, by priorities and comments, at
each moment at which the dead man's switch says that all are back, and at the end of the round. A statement
while anything is left is as much a fault as silence when nothing is.
"""

import argparse
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import psutil

from foundation.process_lock import holder
from live_scheduler.safety.dead_mans_switch import ALL_BACK, WATCH_LOCK, WATCH_LOG
from tests.slurm.live_cluster import NAMES, LiveCluster, LiveProcess
from tests.slurm.private_slurm import Node, Partition, PrivateSlurm, short_folder

DEAD_AFTER_S = 2.0
SETTINGS = "advise_interval_s = 0.5\n"
# A round that is not over by then has lost something.
ROUND_LIMIT_S = 300.0
_LOOK_EVERY_S = 0.02


class Mishap(StrEnum):
    """What is done to the daemon, at random moments."""

    KILLED = "killed"
    STOPPED_KILLED = "stopped, killed"
    WOKEN_KILLED = "stopped, continued, killed"
    WOKEN_LATE = "stopped until all were back, continued, killed while it writes anew"
    ENDING_KILLED = "told to end, stopped while it gives back, killed"
    SWITCH_KILLED = "killed, and its switch while it gives back; another switch starts"


@dataclass
class WayBackOutcome:
    """What rounds of one way left: `unsaid`: everything was back and was not said to be."""

    rounds: int = 0
    texts_left: int = 0
    priorities_left: int = 0
    said: int = 0
    said_falsely: int = 0
    unsaid: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not (
            self.texts_left or self.priorities_left or self.said_falsely or self.unsaid or self.problems
        )


@dataclass(frozen=True)
class QueueTexts:
    """What stands on the jobs of a queue: job -> its priority, its comment."""

    priorities: dict[str, int]
    comments: dict[str, str]

    @classmethod
    def of(cls, slurm: PrivateSlurm) -> "QueueTexts":
        rows = [
            line.split("|", 2) for line in slurm.run("squeue", "--noheader", "--format=%i|%Q|%k").splitlines()
        ]
        return cls(
            {job: int(priority) for job, priority, _ in rows},
            {job: "" if text == "(null)" else text for job, _, text in rows},
        )

    def left_of(self, before: "QueueTexts") -> tuple[int, int]:
        """How many texts and priorities are not those of `before`."""
        return (
            sum(before.comments[job] != text for job, text in self.comments.items()),
            sum(before.priorities[job] != value for job, value in self.priorities.items()),
        )


class Rounds:
    """Rounds on one cluster, whose jobs wait behind a job that has all GPUs."""

    def __init__(self, cluster: LiveCluster, jobs: int, seed: int) -> None:
        self.cluster, self.outcomes = cluster, {way: WayBackOutcome() for way in Mishap}
        self._moments = random.Random(seed)
        cluster.keep_release()
        cluster.block(for_s=7 * 86_400)
        for number in range(jobs):
            own = [f"--comment=mine{' ' if number % 10 == 1 else '-'}{number}"] if number % 2 else []
            cluster.submit(NAMES[number % len(NAMES)], *own)
        self._before = QueueTexts.of(cluster.slurm)
        self._log = cluster.state / WATCH_LOG
        self._heard = 0

    def run(self, way: Mishap) -> str:
        """Make one round; return a line about it."""
        outcome, began_s = self.outcomes[way], time.monotonic()
        outcome.rounds += 1
        said_before, heard_before = outcome.said, self._heard
        daemon = self.cluster.start()
        try:
            self._wait(lambda: self._writes_texts(daemon), outcome, "it writes", listen=False)
            self._pause(0.0, 2.0)
            self._do(way, daemon, outcome)
            self._wait(self._is_over, outcome, "the switch ends")
        except TimeoutError as error:
            outcome.problems.append(f"{error}\n{self.cluster.account()}")
        finally:
            self.cluster.end_processes()
        shown = QueueTexts.of(self.cluster.slurm)
        if shown.priorities.keys() != self._before.priorities.keys():
            outcome.problems.append("not all jobs wait any more: the round shows nothing")
        texts, priorities = shown.left_of(self._before)
        outcome.texts_left += texts
        outcome.priorities_left += priorities
        outcome.unsaid += not (texts or priorities) and self._heard == heard_before
        return (
            f"{way}: {time.monotonic() - began_s:.0f} s, {texts} texts and {priorities} priorities left,"
            f" all back said {self._heard - heard_before} times, {outcome.said - said_before} of them checked"
        )

    def _do(self, way: Mishap, daemon: LiveProcess, outcome: WayBackOutcome) -> None:
        match way:
            case Mishap.STOPPED_KILLED:
                self._stop(daemon)
                self._listen(self._moments.uniform(0.0, 3.0 * DEAD_AFTER_S), outcome)
            case Mishap.WOKEN_KILLED:
                self._stop(daemon)
                self._listen(self._moments.uniform(0.5, 3.0) * DEAD_AFTER_S, outcome)
                daemon.signal(signal.SIGCONT)
                self._pause(0.0, 2.0)
            case Mishap.WOKEN_LATE:
                said = outcome.said
                self._stop(daemon)
                self._wait(lambda: outcome.said > said, outcome, "all are back beside a stopped daemon")
                daemon.signal(signal.SIGCONT)
                self._wait(lambda: self._writes_texts(daemon), outcome, "it takes over again", listen=False)
                self._pause(0.0, 1.0)
            case Mishap.ENDING_KILLED:
                daemon.signal(signal.SIGTERM)
                self._pause(0.0, 2.0)
                self._stop(daemon)
                self._pause(0.0, 2.0 * DEAD_AFTER_S)
        if way is not Mishap.STOPPED_KILLED:
            self._skip()
        daemon.kill()
        if way is Mishap.SWITCH_KILLED:
            self._pause(DEAD_AFTER_S, DEAD_AFTER_S + 4.0)
            if (switch := holder(self.cluster.state / WATCH_LOCK)) is not None:
                with suppress(ProcessLookupError):
                    os.kill(switch, signal.SIGKILL)
            self._hear(outcome)
            another = self.cluster.start_own_switch()
            watches = lambda: holder(self.cluster.state / WATCH_LOCK) == another.pid  # noqa: E731
            self._wait(watches, outcome, "another switch watches")

    def _is_over(self) -> bool:
        """Whether no switch watches, nor is about to."""
        return self.cluster.quiet() and not switches_of(self.cluster.state)

    def _stop(self, daemon: LiveProcess) -> None:
        daemon.signal(signal.SIGSTOP)
        self._skip()

    def _writes_texts(self, daemon: LiveProcess) -> bool:
        """Whether it controls the queue, and texts of its stand there."""
        if daemon.process.poll() is not None:
            raise TimeoutError(f"the daemon has ended: {daemon.said()[-2_000:]}")
        return self.cluster.beats(daemon) and "lucid:" in self.cluster.slurm.run(
            "squeue", "--noheader", "--format=%k"
        )

    def _pause(self, least_s: float, most_s: float) -> None:
        time.sleep(self._moments.uniform(least_s, most_s))

    def _wait(
        self, happened: Callable[[], object], outcome: WayBackOutcome, what: str, *, listen: bool = True
    ) -> None:
        deadline = time.monotonic() + ROUND_LIMIT_S
        while True:
            # What was said before a look is heard before it is believed.
            now = happened()
            if listen:
                self._hear(outcome)
            if now:
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {ROUND_LIMIT_S:g} s: {what}")
            time.sleep(_LOOK_EVERY_S)

    def _listen(self, for_s: float, outcome: WayBackOutcome) -> None:
        until_s = time.monotonic() + for_s
        while time.monotonic() < until_s:
            self._hear(outcome)
            time.sleep(_LOOK_EVERY_S)

    def _hear(self, outcome: WayBackOutcome) -> None:
        """Look at the queue at once when it is said that all are back: no daemon may run meanwhile."""
        if more := self._skip():
            outcome.said += more
            outcome.said_falsely += any(QueueTexts.of(self.cluster.slurm).left_of(self._before))

    def _skip(self) -> int:
        """Take what was said for what it was, beside a daemon that ran; return how often it was said."""
        said = self._log.read_text().count(ALL_BACK) if self._log.exists() else 0
        more, self._heard = said - self._heard, said
        return more


def switches_of(state: Path) -> list[int]:
    """The switches of a state folder, also one that has only just been started."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            words = process.cmdline()
            # Between fork and exec it has the words of its daemon, which names a file beside the state.
            named = any(
                word in (str(state), f"--settings={state.parents[2] / 'live.toml'}") for word in words
            )
            if named and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


def table(outcomes: dict[Mishap, WayBackOutcome]) -> str:
    """The outcomes as a table in Markdown."""
    lines = [
        "| the daemon is | rounds | texts left | priorities left | said and so | said and not so | unsaid |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for way, one in outcomes.items():
        lines.append(
            f"| {way} | {one.rounds} | {one.texts_left} | {one.priorities_left}"
            f" | {one.said - one.said_falsely} | {one.said_falsely} | {one.unsaid} |"
        )
    return "\n".join(lines)


def run_rounds(cluster: LiveCluster, rounds: int, jobs: int, seed: int) -> dict[Mishap, WayBackOutcome]:
    """Make so many rounds, the ways by turns; say a line of each."""
    stage = Rounds(cluster, jobs, seed)
    ways = list(Mishap)
    for number in range(rounds):
        line = stage.run(ways[number % len(ways)])
        print(f"round {number + 1}, {line}", flush=True)
    return stage.outcomes


def main(argv: Sequence[str] | None = None) -> int:
    """Run the rounds; 1 when anything was left, or said wrongly."""
    from tests.fixtures import save_small_models, saved_small_models

    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=700)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(argv)
    folder = short_folder()
    try:
        (folder / "models").mkdir()
        save_small_models(folder / "models")
        with one_node_slurm(folder / "slurm") as slurm:
            models = saved_small_models(folder / "models")
            cluster = LiveCluster(slurm, folder, models, settings=SETTINGS, dead_after_s=DEAD_AFTER_S)
            try:
                outcomes = run_rounds(cluster, given.rounds, given.jobs, given.seed)
            finally:
                cluster.end_processes()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(table(outcomes))
    for way, outcome in outcomes.items():
        for problem in outcome.problems:
            print(f"{way}: {problem}")
    return not all(outcome.clean for outcome in outcomes.values())


def one_node_slurm(folder: Path) -> PrivateSlurm:
    return PrivateSlurm(
        folder,
        nodes=(Node("n1"),),
        partitions=(Partition("vc1", ("n1",)),),
        settings={"MessageTimeout": "10"},
    )


if __name__ == "__main__":
    sys.exit(main())
