"""Where the usage of inference is read from: a command, a file, a Prometheus, as the settings say.

Whatever it is, one number from 0 to 1 comes of it. A command runs without a shell, its output and its time
are bounded; a file must have been written lately; what they hold is read as a number and as nothing else.
"""

import math
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cluster_logs.metrics.prometheus_api import RangeQuery, open_client, range_series
from foundation.errors import BadInputError, ServiceUnavailableError
from foundation.outside_names import open_regular
from parts.lending.live.settings import NodeLoanSettings

COMMAND_LIMIT_S = 5.0
_MOST_BYTES = 4_096
_PROMETHEUS_STEP_S = 60.0

ReadUsage = Callable[[], float]


def usage_reader(settings: NodeLoanSettings) -> ReadUsage | None:
    """Return what reads the usage; None: nothing is set, and busy nodes count as used.

    It raises BadInputError for what is no usage, ServiceUnavailableError when nobody answers.
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
