"""Questions to slurmdbd, which may hang where slurmctld goes on: no pass waits for the answer."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Generic, TypeVar

from foundation.errors import ServiceUnavailableError

Answer = TypeVar("Answer")


class Inquiry(Generic[Answer]):
    """A kind of question, one at a time, each in a thread of its own. Not for several threads at once.

    `patience_s`: how long `ask` waits for the answer. One that comes later is handed to whoever asks next, in
    the place of an answer to what that one asked, unless its question is older than `keep_s` then.
    """

    def __init__(
        self, patience_s: float, keep_s: float, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._patience_s, self._keep_s, self._clock = patience_s, keep_s, clock
        self._future: Future[Answer] | None = None
        self._asked_s = 0.0

    def ask(self, question: Callable[[], Answer]) -> Answer:
        """Return the answer, or that to an earlier question; raises what the question raises.

        Raises ServiceUnavailableError while a question has not been answered.
        """
        future = self._future
        answered = future is not None and future.done()
        if future is None or (answered and self._clock() - self._asked_s > self._keep_s):
            future = self._start(question)
            wait([future], self._patience_s)
            answered = future.done()
        if not answered:
            raise ServiceUnavailableError("slurmdbd has not answered yet.")
        self._future = None
        return future.result()

    def _start(self, question: Callable[[], Answer]) -> "Future[Answer]":
        future: Future[Answer] = Future()

        def find_out() -> None:
            try:
                future.set_result(question())
            except BaseException as error:
                future.set_exception(error)

        self._future, self._asked_s = future, self._clock()
        # Not an executor's: the process does not wait for it at its end.
        threading.Thread(target=find_out, name="slurmdbd", daemon=True).start()
        return future
