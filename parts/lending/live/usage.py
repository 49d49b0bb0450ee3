"""What inference uses and will use: readings of the usage, kept in finished bins for the release's forecast.

    STATE/inference_usage.jsonl    {"start_s": 1795382400, "usage": 0.61}

The usage that counts is the last one that was read; where the release has a forecast, the larger of both. A
source that says nothing is waited for, and what is on loan stays so meanwhile; after `usage_lost_after_s`
inference counts as using all of its nodes.

It is read from a command, a file or a Prometheus, as the settings say; one number from 0 to 1 comes of it. A
command runs without a shell, its output and its time are bounded; a file must have been written lately; what
they hold is read as a number and as nothing else.
"""

import math
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import isfinite
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cluster_logs.metrics.prometheus_api import RangeQuery, open_client, range_series
from foundation.errors import BadInputError, LucidError, ServiceUnavailableError
from foundation.outside_names import open_regular
from live_scheduler.memory.records import SeenBins
from parts.lending.live.loan_plan import InferenceNeed
from parts.lending.live.settings import NodeLoanSettings
from parts.lending.replay.forecast import BIN_S, UsageForecaster
from parts.lending.replay.released_loans import ReleasedLoans

COMMAND_LIMIT_S = 5.0
_MOST_BYTES = 4_096
_PROMETHEUS_STEP_S = 60.0
USAGE_FILE = "inference_usage.jsonl"
ReadUsage = Callable[[], float]


@dataclass(frozen=True)
class ForecastInUse:
    """The forecast that counts (None: none does) by one of its quantiles; `why` there is none, for people."""

    forecaster: UsageForecaster | None
    quantile: float
    why: str = ""

    @classmethod
    def of(cls, rules: ReleasedLoans, forecaster: UsageForecaster | None) -> "ForecastInUse":
        """Return what the rules ask for and the release has."""
        if rules.usage != "forecast":
            return cls(None, rules.quantile)
        return cls(forecaster, rules.quantile, "" if forecaster else " (the release has no forecast of it)")

    def describe(self) -> str:
        """Return what the need goes by, for people."""
        if self.forecaster is None:
            return f"the usage as last read{self.why}"
        return f"the larger of the usage and the forecast's quantile {self.quantile:g}"

    def value(self, usage: NDArray[np.float64], last_bin_start_s: float) -> float:
        """Return the quantile of the next bin, between those that are told by a line; NaN: there is none."""
        if self.forecaster is None:
            return float("nan")
        told = self.forecaster.forecast(usage, last_bin_start_s).quantiles
        if not told:
            return float("nan")
        levels = sorted(told)
        return float(np.interp(self.quantile, levels, [told[level] for level in levels]))


class InferenceUsage:
    """The usage of one cluster's inference."""

    def __init__(self, settings: NodeLoanSettings, folder: Path, read: ReadUsage | None) -> None:
        """`read` as `usage_reader` makes it (None: busy nodes count). Raises OSError for the record."""
        self._settings, self._read = settings, read
        self._bins = SeenBins(folder / USAGE_FILE, "usage", bin_s=BIN_S, most=1.0)
        self._read_s: float | None = None  # when it was read last, or asked for first

    def need(
        self, now_s: float, busy_share: float, forecast: ForecastInUse
    ) -> tuple[InferenceNeed | None, str | None]:
        """Return what inference needs, and what is wrong with it; without a need nothing is to be changed.

        `busy_share` of the nodes has jobs of inference. Raises OSError when a bin cannot be written.
        """
        try:
            usage = busy_share if self._read is None else self._read()
        except LucidError as error:
            return self._without(now_s, str(error))
        self._read_s = now_s
        self._bins.note(now_s, usage)
        return InferenceNeed(usage, self._forecast(forecast, now_s)), None

    def _without(self, now_s: float, why: str) -> tuple[InferenceNeed | None, str]:
        if self._read_s is None:
            self._read_s = now_s
        if now_s - self._read_s <= self._settings.usage_lost_after_s:
            return None, f"{why} What is on loan stays so."
        return InferenceNeed(1.0), f"{why} Since that lasts, every node is taken back."

    def _forecast(self, forecast: ForecastInUse, now_s: float) -> float | None:
        """Return the forecast of the bin after the newest finished one, where that has just ended."""
        newest_s = self._bins.newest_start_s
        if newest_s is None or not newest_s + BIN_S <= now_s < newest_s + 2 * BIN_S:
            return None
        value = forecast.value(self._bins.values(), float(newest_s))
        return min(max(value, 0.0), 1.0) if isfinite(value) else None


def usage_reader(settings: NodeLoanSettings) -> ReadUsage | None:
    """Return what reads the usage; None: nothing is set, and busy nodes count as used.

    It raises BadInputError for what is no usage, ServiceUnavailableError when no answer comes.
    """
    if settings.usage_command:
        return lambda: usage_of_text(run_bounded(settings.usage_command), settings.usage_command[0])
    if settings.usage_file:
        return lambda: _of_file(Path(settings.usage_file), settings.usage_lost_after_s)
    if settings.usage_url:
        return lambda: _of_prometheus(settings.usage_url, settings.usage_query)
    return None


def usage_of_text(text: str, where: str) -> float:
    """Return the usage that a text is: one number from 0 to 1. Raises BadInputError."""
    word = text.strip()
    try:
        usage = float(word)
    except ValueError:
        usage = math.nan
    if not 0.0 <= usage <= 1.0:
        shown = repr(word if len(word) <= 80 else word[:77] + "...")
        raise BadInputError(
            f"{where} says that the usage of inference is {shown}.", remedy="Say a share from 0 to 1."
        )
    return usage


def run_bounded(command: Sequence[str], limit_s: float = COMMAND_LIMIT_S) -> str:
    """Return what a program prints; raises ServiceUnavailableError when it fails or takes too long."""
    try:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            restore_signals=True,
        )
    except OSError as error:
        raise BadInputError(
            f"{command[0]} cannot be run: {error.strerror}.", remedy="Correct usage_command."
        ) from error
    try:
        output = _output(process, time.monotonic() + limit_s)
        if process.wait(timeout=limit_s):
            raise ServiceUnavailableError(f"{command[0]} ended with {process.returncode}.")
    except subprocess.TimeoutExpired:
        raise ServiceUnavailableError(f"{command[0]} did not end within {limit_s:g} s.") from None
    finally:
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
    return output.decode(errors="backslashreplace")


def _output(process: "subprocess.Popen[bytes]", deadline_s: float) -> bytes:
    assert process.stdout is not None  # noqa: S101  (opened as a pipe)
    pipe, output = process.stdout.fileno(), b""
    while len(output) <= _MOST_BYTES:
        ready, _, _ = select.select([pipe], [], [], max(0.0, deadline_s - time.monotonic()))
        if not ready:
            raise subprocess.TimeoutExpired(process.args, 0)
        piece = os.read(pipe, _MOST_BYTES)
        if not piece:
            return output
        output += piece
    raise ServiceUnavailableError(f"The usage's command printed more than {_MOST_BYTES:,} bytes.")


def _of_file(path: Path, most_age_s: float) -> float:
    try:
        with open_regular(path) as file:
            age_s = time.time() - os.fstat(file.fileno()).st_mtime
            content = file.read(_MOST_BYTES)
    except OSError as error:
        raise ServiceUnavailableError(f"The usage's file {path} cannot be read: {error}.") from error
    if age_s > most_age_s:
        raise ServiceUnavailableError(
            f"The usage's file {path} was last written more than {most_age_s:g} s ago."
        )
    return usage_of_text(content.decode(errors="backslashreplace"), str(path))


def _of_prometheus(url: str, promql: str) -> float:
    end = datetime.now(UTC)
    start = end - timedelta(seconds=_PROMETHEUS_STEP_S)
    query = RangeQuery(url, start, end, step_s=_PROMETHEUS_STEP_S, timeout_s=COMMAND_LIMIT_S)
    with open_client(query) as client:
        series = range_series(client, query, promql, (end.timestamp(), end.timestamp()), lambda _: None)
    if len(series) != 1 or not len(series[0].values):
        raise BadInputError(
            f"{url}: {promql} gave {len(series)} series.", remedy="Ask for one number: sum(...), avg(...)."
        )
    return usage_of_text(repr(float(series[0].values[-1])), f"{url}: {promql}")
