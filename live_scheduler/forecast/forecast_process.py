"""Plays clusters forward in a process of its own, so that no pass of the daemon waits for it.

One child, started when it is first needed and again when it has failed. It speaks to its parent alone,
through its standard input and output (a question and an answer are a line of JSON each), and ends when these
close, however the parent ended.
"""

import io
import json
import logging
import os
import selectors
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, BinaryIO

from pydantic import TypeAdapter

from foundation.errors import LucidError, ServiceUnavailableError
from live_scheduler.cluster_state import ClusterState
from live_scheduler.deciding.live_policies import PredictedPairs
from live_scheduler.forecast.completion_forecast import CompletionForecast, Prediction, forecast, predict
from live_scheduler.forecast.forecast_inputs import ForecastInputs, RunTime
from live_scheduler.live_settings import LiveSettings
from lucid_models.model_format import Fields
from lucid_models.packing.pairwise import PairwiseScorer
from simulator.workload.colocation import BelievedPairs
from simulator.workload.job import JobProfile

logger = logging.getLogger("lucid.live")
# What is played is bounded (`completion_forecast.MOST_PLAYED`): a child that takes longer hangs.
LIMIT_S = 120.0
_NICENESS = 10
_STOP_S = 5.0
Answer = CompletionForecast | dict[str, Prediction] | str
# By the names of fields and of answers.
_INPUTS: dict[str, TypeAdapter[Any]] = {
    "cluster": TypeAdapter(ClusterState),
    "run_times": TypeAdapter(dict[str, RunTime]),
    "settings": TypeAdapter(LiveSettings),
    "release": TypeAdapter(str),
    "profiles": TypeAdapter(dict[str, JobProfile]),
    "seed": TypeAdapter(int),
    "samples": TypeAdapter(int),
    "alike": TypeAdapter(tuple[float, ...]),
}
_ANSWERS: dict[str, TypeAdapter[Any]] = {
    "forecast": TypeAdapter(CompletionForecast),
    "predictions": TypeAdapter(dict[str, Prediction]),
    "problem": TypeAdapter(str),
}


class ForecastProcess:
    """The child, for any number of threads, one at a time."""

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        """Nothing is started yet. `limit_s`: how long a forecast may take."""
        self._limit_s = limit_s
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The child's process id; None: none runs."""
        return None if self._child is None else self._child.pid

    def forecast(self, inputs: ForecastInputs) -> CompletionForecast:
        """Return what `completion_forecast.forecast` does.

        Raises ServiceUnavailableError when that raises, with the reason, and when the child fails or takes
        too long; the next call starts another.
        """
        answer = self._answer(question(inputs))
        assert isinstance(answer, CompletionForecast)  # noqa: S101
        return answer

    def predict(self, inputs: ForecastInputs, new: Sequence[str]) -> dict[str, Prediction]:
        """Return what `prediction.predict` does; raises as `forecast`."""
        answer = self._answer(question(inputs, new))
        assert isinstance(answer, dict)  # noqa: S101
        return answer

    def _answer(self, asked: bytes) -> Answer:
        with self._lock:
            if self._closed:
                raise ServiceUnavailableError("The cluster is played forward no more: the daemon ends.")
            try:
                answer = self._ask(asked)
            except (OSError, EOFError, ValueError) as error:
                self._end()
                raise ServiceUnavailableError(
                    f"Playing the cluster forward failed: {error!r}.", remedy="Ask again."
                ) from error
        if isinstance(answer, str):
            raise ServiceUnavailableError(f"The cluster cannot be played forward: {answer}")
        return answer

    def close(self) -> None:
        """End the child, whatever it does; a forecast that is being made fails."""
        self._closed = True
        child = self._child
        if child is not None:
            child.kill()
        with self._lock:
            self._end()

    def _ask(self, asked: bytes) -> Answer:
        """Return the answer, or why there is none."""
        child = self._running()
        assert child.stdin is not None and child.stdout is not None  # noqa: PT018, S101
        child.stdin.write(asked)
        child.stdin.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(child.stdout, selectors.EVENT_READ)
            if not selector.select(self._limit_s):
                raise TimeoutError(f"no answer within {self._limit_s:g} s")
        line = child.stdout.readline()
        if not line.endswith(b"\n"):
            raise EOFError("the process has ended")
        return read_answer(line)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._child is not None and self._child.poll() is None:
            return self._child
        self._end()
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        environment |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self._child = subprocess.Popen(
            [sys.executable, "-m", "live_scheduler.forecast.forecast_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        return self._child

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:  # what was not written yet
                    logger.debug("the forecasts' pipe was broken")
        child.wait(_STOP_S)


def answer_all(asked: BinaryIO, answers: BinaryIO) -> None:
    """Answer one question after another until there are no more."""
    for line in asked:
        if not line.endswith(b"\n"):
            return  # the parent has gone
        answer: Answer
        try:
            inputs, new = read_question(line)
            answer = forecast(inputs) if new is None else predict(inputs, new)
        except LucidError as error:
            answer = str(error)
        except Exception as error:  # a policy may be a user's own
            traceback.print_exc()
            answer = repr(error)
        answers.write(answer_line(answer))
        answers.flush()


def question(inputs: ForecastInputs, new: Sequence[str] | None = None) -> bytes:
    """Ask for a forecast, or for the predictions of new jobs."""
    fields = {name: kind.dump_python(getattr(inputs, name), mode="json") for name, kind in _INPUTS.items()}
    pairs = inputs.believed_pairs
    # What the packing model of a release predicts of pairs; nothing else is believed of them live.
    scorer = pairs.speeds.scorer if pairs is not None and isinstance(pairs.speeds, PredictedPairs) else None
    fields["pairs"] = None if scorer is None else scorer.to_data()
    fields["mean_speed_min"] = None if pairs is None else pairs.mean_speed_min
    return _line({**fields, "new": None if new is None else list(new)})


def read_question(line: bytes) -> tuple[ForecastInputs, list[str] | None]:
    """Read what `question` wrote."""
    fields = json.loads(line)
    pairs = None
    if fields["pairs"] is not None:
        scorer = PairwiseScorer.from_data(Fields(fields["pairs"], "the pairs' model"))
        pairs = BelievedPairs(PredictedPairs(scorer), fields["mean_speed_min"])
    inputs = {name: kind.validate_python(fields[name]) for name, kind in _INPUTS.items()}
    return ForecastInputs(**inputs, believed_pairs=pairs), fields["new"]


def answer_line(answer: Answer) -> bytes:
    """Write an answer, or why there is none."""
    kind = "problem" if isinstance(answer, str) else "predictions" if isinstance(answer, dict) else "forecast"
    return _line({kind: _ANSWERS[kind].dump_python(answer, mode="json")})


def read_answer(line: bytes) -> Answer:
    """Read what `answer_line` wrote; raises ValueError."""
    document = json.loads(line)
    ((kind, content),) = document.items()
    if kind not in _ANSWERS:
        raise ValueError(f"an answer {kind!r}")
    answer: Answer = _ANSWERS[kind].validate_python(content)
    return answer


def _line(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def main() -> None:
    """Be the child: work at the lowest priority, and leave interrupts to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICENESS)
    answers = io.FileIO(os.dup(1), "w")
    os.dup2(2, 1)  # whatever is printed is no answer
    with suppress(BrokenPipeError), io.BufferedWriter(answers) as stream:  # broken: the parent has gone
        answer_all(sys.stdin.buffer, stream)


if __name__ == "__main__":
    main()
