"""The workers of one run, as their coordinator sees them: told together, awaited with bounds, and ended."""

import select
import signal
import time
from collections.abc import Sequence
from typing import Self

from profiler_jobs.workers.fork_server import ForkServer, StartedWorker
from profiler_jobs.workers.windows import TrainedStretch
from profiler_jobs.workers.worker_protocol import ChannelClosedError, Message

STOP_GRACE_S = 5.0  # to finish a step and leave by itself
KILL_LIMIT_S = 10.0
_EXIT_LIMIT_S = 5.0
_LONGEST_ERROR = 1_000


class WorkerFailedError(Exception):
    """A worker cannot go on; says which, why, and whether memory, or CUDA altogether, was what it lacked."""

    def __init__(
        self, worker: "Worker", reason: str, *, out_of_memory: bool = False, no_cuda: bool = False
    ) -> None:
        super().__init__(f"{worker.name} {reason}"[:_LONGEST_ERROR])
        self.worker = worker
        self.out_of_memory = out_of_memory
        self.no_cuda = no_cuda
        self.last_words = worker.process.last_words()


class Worker:
    """One worker of the run."""

    def __init__(self, name: str, process: StartedWorker) -> None:
        self.name = name
        self.process = process
        self.examples_per_step = 0
        self.stretch: TrainedStretch | None = None
        self.heard_s = time.monotonic()
        self.awaited: str | None = None  # what it has still to say
        self.stands_still = False


class Crew:
    """The workers of one run. Leaving the context ends them, in good order or by force.

    All waiting raises WorkerFailedError when a worker fails, ends, or when one that is waited for says
    nothing for `silence_limit_s`.
    """

    def __init__(
        self, server: ForkServer, tasks: Sequence[tuple[str, Message]], silence_limit_s: float
    ) -> None:
        self._server = server
        self._silence_limit_s = silence_limit_s
        self.workers: list[Worker] = []
        self.unkillable: list[int] = []
        try:
            for name, task in tasks:
                self.workers.append(Worker(name, server.start_worker(task)))
        except BaseException:
            self.close()
            raise

    @property
    def process_ids(self) -> tuple[int, ...]:
        """Return the workers' process ids."""
        return tuple(worker.process.pid for worker in self.workers)

    def wait_until_built(self) -> None:
        """Wait until every workload stands."""
        self._wait(self.workers, "built")

    def train(self, workers: Sequence[Worker], *, steps: int, until_s: float) -> None:
        """Let them train, and on; return once each has completed `steps` and one at or after `until_s`."""
        for worker in workers:
            self._tell(worker, {"do": "train", "steps": steps, "until_s": until_s})
        self._wait(workers, "reached")

    def pause(self, workers: Sequence[Worker]) -> list[TrainedStretch]:
        """Let them pause with their memory in place; return what they did since they began to train."""
        for worker in workers:
            self._tell(worker, {"do": "pause"})
        self._wait(workers, "paused")
        return [worker.stretch for worker in workers if worker.stretch is not None]

    def close(self) -> None:
        """End the workers; those that cannot be ended are `unkillable`."""
        deadline_s = time.monotonic() + STOP_GRACE_S
        for worker in self.workers:
            try:
                worker.process.channel.send({"do": "stop"})
            except ChannelClosedError:
                continue
        for worker in self.workers:
            pid = worker.process.pid
            grace_s = 0.0 if worker.stands_still else max(0.0, deadline_s - time.monotonic())
            if self._server.exit_status(pid, grace_s) is None:
                self._server.kill(pid)
                if self._server.exit_status(pid, KILL_LIMIT_S) is None:
                    self.unkillable.append(pid)
            worker.process.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _tell(self, worker: Worker, message: Message) -> None:
        try:
            worker.process.channel.send(message)
        except ChannelClosedError:
            self._hear_out(worker)

    def _wait(self, workers: Sequence[Worker], said: str) -> None:
        began_s = time.monotonic()
        for worker in workers:
            worker.awaited = said
            worker.heard_s = began_s
        poll = select.poll()
        by_descriptor = {worker.process.channel.connection.fileno(): worker for worker in self.workers}
        for descriptor in by_descriptor:
            poll.register(descriptor, select.POLLIN)
        self._read(self.workers)
        while any(worker.awaited for worker in workers):
            ready = poll.poll(1e3 * min(1.0, self._silence_limit_s))
            self._read([by_descriptor[descriptor] for descriptor, _ in ready])
            now_s = time.monotonic()
            for worker in workers:
                if worker.awaited and now_s - worker.heard_s > self._silence_limit_s:
                    worker.stands_still = True
                    raise WorkerFailedError(worker, f"stood still for {now_s - worker.heard_s:.0f} s.")

    def _read(self, workers: Sequence[Worker]) -> None:
        for worker in workers:
            try:
                while (message := worker.process.channel.receive(0.0)) is not None:
                    self._understand(worker, message)
            except ChannelClosedError:
                self._hear_out(worker)

    def _understand(self, worker: Worker, message: Message) -> None:
        worker.heard_s = time.monotonic()
        kind = message["said"]
        if kind == "failed":
            held_mib = message["held_mib"]
            held = f" (PyTorch held {held_mib:,.0f} MiB)" if held_mib is not None else ""
            raise WorkerFailedError(
                worker,
                f"failed {message['stage']}: {message['error']}{held}",
                out_of_memory=message["out_of_memory"],
                no_cuda=message["no_cuda"],
            )
        if kind == "built":
            worker.examples_per_step = message["examples_per_step"]
        elif kind == "paused":
            probes = tuple((at_s, took_s) for at_s, took_s in message["probes"])
            worker.stretch = TrainedStretch(message["begin_s"], tuple(message["completions_s"]), probes)
        if kind == worker.awaited:
            worker.awaited = None

    def _hear_out(self, worker: Worker) -> None:
        """Say why a worker that closed its connection is gone, by its own last message if there is one."""
        try:
            while (message := worker.process.channel.receive(0.0)) is not None:
                self._understand(worker, message)
        except ChannelClosedError:
            pass
        status = self._server.exit_status(worker.process.pid, _EXIT_LIMIT_S)
        raise WorkerFailedError(worker, _ending(status))


def _ending(status: int | None) -> str:
    if status is None:
        return "closed its connection and did not end."
    if status == -signal.SIGKILL:
        return "was killed (SIGKILL): by hand, or because the host's memory ran out."
    if status < 0:
        return f"was ended by {signal.Signals(-status).name}."
    return f"ended by itself with status {status}."
