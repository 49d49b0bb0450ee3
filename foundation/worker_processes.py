"""Independent pieces of work over local processes, each of which holds one piece at a time.

A process that is killed (memory ran out, a library crashed) costs its piece only, and it is known which. A
process ends when its pipe closes: when this process is killed, none stays behind.

A process is a fresh interpreter, since threads of libraries that are loaded here would not survive a fork. It
imports what the work needs and nothing else: multiprocessing's own would import this process' `__main__` as
well, which in a task of Airflow is Airflow, and that does not let itself be imported below a task.
"""

import copy
import pickle
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, Pipe, wait
from traceback import format_exc
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from foundation.errors import LucidError
from foundation.progress import Progress, silent

SECONDS_BETWEEN_PARTS = 0.5  # from a process about the piece that it holds

# (item, done, total or None when unknown)
Part = Callable[[Any, int, int | None], object]
Shared = TypeVar("Shared")
Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")


class WorkerLostError(LucidError):
    """A worker process died under its piece of work."""


@dataclass
class _Worker:
    process: subprocess.Popen[bytes]
    pipe: Connection
    item: Any = None


class WorkerPool(Generic[Item, Result]):
    """Up to `workers` processes that do `work(item, progress)`; one works in this process.

    Processes live as long as the pool, so what they keep between pieces is there for the next ones. `work`
    is a function of a module other than `__main__`, or a `partial` of one: it, items and results are pickled.
    """

    def __init__(self, work: Callable[[Item, Progress], Result], workers: int) -> None:
        self._work = work
        self._workers = workers
        self._idle: list[_Worker] = []
        self._busy: dict[Connection, _Worker] = {}

    def __enter__(self) -> Self:
        """Start nothing yet: a process is started when there is a piece for it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End all processes, those that still work at once."""
        for worker in self._busy.values():
            worker.process.terminate()
        for worker in (*self._idle, *self._busy.values()):
            worker.pipe.close()
            worker.process.wait()

    def results(
        self,
        items: Iterable[Item],
        *,
        part: Part | None = None,
        lost: Callable[[Item, WorkerLostError], Result] | None = None,
    ) -> Iterator[tuple[Item, Result]]:
        """Yield each item with its result as they are done; an error of `work` is raised here.

        `part` is called with how far an item is. `lost` gives the result of an item when its process died; by
        default WorkerLostError is raised.
        """
        if self._workers <= 1:
            for item in items:
                yield item, self._work(item, _telling(part, item))
            return
        waiting = deque(items)
        while waiting or self._busy:
            while waiting and len(self._busy) < self._workers:
                self._give(waiting.popleft())
            for pipe in wait(list(self._busy)):
                assert isinstance(pipe, Connection)  # noqa: S101 - no other kind is busy
                worker = self._busy[pipe]
                item = worker.item
                try:
                    kind, value = pipe.recv()
                except (EOFError, OSError):
                    kind, value = "lost", _death(worker)
                if kind == "part":
                    _telling(part, item)(*value)
                    continue
                del self._busy[pipe]
                if kind != "lost":
                    self._idle.append(worker)
                if waiting:
                    self._give(waiting.popleft())
                if kind == "done":
                    yield item, value
                elif kind == "lost" and lost is not None:
                    yield item, lost(item, value)
                else:
                    raise value

    def _give(self, item: Item) -> None:
        worker = self._idle.pop() if self._idle else _start(self._work)
        worker.item = item
        self._busy[worker.pipe] = worker
        with suppress(OSError):  # of one that died since: its pipe says so next
            worker.pipe.send(item)


def _telling(part: Part | None, item: Any) -> Progress:
    def tell(done: int, total: int | None, what: str) -> None:
        if part is not None:
            part(item, done, total)

    return tell


def _start(work: Callable[[Any, Progress], Any]) -> _Worker:
    ours, theirs = Pipe()
    with theirs:  # only the worker keeps its end: when it dies, reading and writing ours say so at once
        handle = theirs.fileno()
        served = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import serve; serve({handle})"
        process = subprocess.Popen(
            [sys.executable, "-c", served], stdin=subprocess.DEVNULL, pass_fds=[handle]
        )
    with suppress(OSError):
        ours.send(work)
    return _Worker(process, ours)


def _death(worker: _Worker) -> WorkerLostError:
    code = worker.process.wait()
    worker.pipe.close()
    if code < 0:
        how = f"by signal {-code} during this run (9: often out of memory; try fewer --workers)"
    else:
        how = f"with exit code {code}; what it wrote to standard error says why"
    return WorkerLostError(f"The worker process ended {how}.")


def serve(handle: int) -> None:
    """What a worker process does until the pipe of this file descriptor closes.

    Ctrl-C is for the process that started it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pipe = Connection(handle)
    told_s = time.monotonic()

    def tell(kind: str, value: Any) -> None:
        nonlocal told_s
        told_s = time.monotonic()
        # When nothing listens any more the work goes on all the same: it may be stored.
        with suppress(OSError):
            pipe.send((kind, value))

    def part(done: int, total: int | None, what: str) -> None:
        if time.monotonic() - told_s >= SECONDS_BETWEEN_PARTS:
            tell("part", (done, total, what))

    with suppress(EOFError):
        work = pipe.recv()
        while True:
            item = pipe.recv()
            try:
                result = work(item, part)
            except Exception as error:
                error.add_note(f"In a worker process:\n{format_exc()}")
                tell("raised", _sendable(error))
            else:
                tell("done", result)


def _sendable(error: Exception) -> Exception:
    """The error, or its text when it would not survive the way through a pipe."""
    try:
        pickle.dumps(error)
        copy.deepcopy(error)  # made anew as the other end will: by its class and arguments
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def over_processes(
    work: Callable[[Shared, Key], Result],
    shared: Shared,
    items: Sequence[Key],
    *,
    workers: int,
    what: str,
    progress: Progress = silent,
) -> dict[Key, Result]:
    """Return `work(shared, item)` for each item, in their order; the outcome does not depend on `workers`."""
    done: dict[Key, Result] = {}
    progress(0, len(items), what)
    with WorkerPool(partial(_with_shared, work, shared), min(workers, len(items))) as pool:
        for item, result in pool.results(items):
            done[item] = result
            progress(len(done), len(items), what)
    return {item: done[item] for item in items}


def _with_shared(work: Callable[[Any, Any], Any], shared: Any, item: Any, progress: Progress) -> Any:
    return work(shared, item)
