"""Independent pieces of work over local processes; what they share is sent to each process once."""

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import Any, TypeVar

from foundation.progress import Progress, silent

S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")

_shared: list[Any] = []


def over_processes(
    work: Callable[[S, T], R],
    shared: S,
    items: Sequence[T],
    *,
    workers: int,
    what: str,
    progress: Progress = silent,
) -> dict[T, R]:
    """Return `work(shared, item)` for each item, in their order; the outcome does not depend on `workers`.

    `work` is a function of a module, so that a process can find it; one worker works in this process.
    """
    done: dict[T, R] = {}
    progress(0, len(items), what)
    if workers <= 1 or len(items) == 1:
        for item in items:
            done[item] = work(shared, item)
            progress(len(done), len(items), what)
        return done
    with ProcessPoolExecutor(
        min(workers, len(items)), get_context("spawn"), initializer=_share, initargs=(shared,)
    ) as pool:
        futures = {pool.submit(_with_shared, work, item): item for item in items}
        for future in as_completed(futures):
            done[futures[future]] = future.result()
            progress(len(done), len(items), what)
    return {item: done[item] for item in items}


def _share(shared: Any) -> None:
    _shared[:] = [shared]


def _with_shared(work: Callable[[Any, Any], Any], item: Any) -> Any:
    return work(_shared[0], item)
