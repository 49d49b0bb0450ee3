"""A real Prometheus on loopback with history of its own, for the tests of what reads it."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import which

import httpx
import pytest

from tests.waiting import PATIENCE_S

Labels = Mapping[str, str]
# (metric, labels, [(seconds since 1970, value)])
SeriesPoints = tuple[str, Labels, Iterable[tuple[float, float]]]


@dataclass(frozen=True)
class PrometheusServer:
    url: str
    log: Path


def write_openmetrics(path: Path, series: Iterable[SeriesPoints]) -> None:
    """As `promtool tsdb create-blocks-from openmetrics` reads it: a metric's lines together, `# EOF` last."""
    by_metric: dict[str, list[str]] = {}
    for metric, labels, points in series:
        inside = ",".join(f'{key}="{value}"' for key, value in labels.items())
        lines = by_metric.setdefault(metric, [])
        lines += [f"{metric}{{{inside}}} {value!r} {at:.3f}" for at, value in points]
    with path.open("w") as out:
        for metric, lines in by_metric.items():
            out.write(f"# TYPE {metric} gauge\n" + "\n".join(lines) + "\n")
        out.write("# EOF\n")


@contextmanager
def prometheus_with(folder: Path, series: Iterable[SeriesPoints]) -> Iterator[PrometheusServer]:
    """Start a server whose history is `series`; skips the test where Prometheus is not installed."""
    if which("prometheus") is None or which("promtool") is None:
        pytest.skip("Prometheus is not installed (Debian: apt-get install prometheus)")
    history, data, log = folder / "history.om", folder / "data", folder / "prometheus.log"
    write_openmetrics(history, series)
    made = subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(history), str(data)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    (folder / "prometheus.yml").write_text("scrape_configs: []\n")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    command = [
        "prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={data}",
        f"--web.listen-address=127.0.0.1:{port}", "--storage.tsdb.retention.time=100y",
    ]  # fmt: skip
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, start_new_session=True, env={"PATH": os.environ["PATH"]}
        )
    try:
        url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + PATIENCE_S
        while True:
            assert process.poll() is None, log.read_text()[-2_000:]
            try:
                if httpx.get(f"{url}/-/ready", timeout=20).status_code == 200:
                    break
            except httpx.TransportError:
                pass
            assert time.monotonic() < deadline, log.read_text()[-2_000:]
            time.sleep(0.05)
        yield PrometheusServer(url, log)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=20)
