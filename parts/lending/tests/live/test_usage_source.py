"""The usage of inference is one number, whatever a command, a file or a server says."""

import os
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from foundation.errors import BadInputError, LucidError, ServiceUnavailableError
from parts.lending.live.settings import NodeLoanSettings
from parts.lending.live.usage import run_bounded, usage_of_text, usage_reader


def read(**settings: object) -> float:
    reader = usage_reader(NodeLoanSettings(**settings))  # type: ignore[arg-type]
    assert reader is not None
    return reader()


def test_a_command_is_run_as_it_is_without_a_shell(tmp_path: Path) -> None:
    assert read(usage_command=("printf", " 0.25\n")) == 0.25
    assert read(usage_command=(sys.executable, "-c", "print(0.5)")) == 0.5
    with pytest.raises(BadInputError, match=r"'\$\(touch"):
        read(usage_command=("echo", f"$(touch {tmp_path / 'no'})"))
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize(
    ("command", "error", "words"),
    [
        (("/no/such/program",), BadInputError, "cannot be run"),
        (("false",), ServiceUnavailableError, "ended with 1"),
        (("yes",), ServiceUnavailableError, "printed more than"),
        (("sleep", "600"), ServiceUnavailableError, "did not end within"),
        (("sh", "-c", "sleep 600 & exec >&-; sleep 600"), ServiceUnavailableError, "did not end within"),
    ],
)
def test_a_command_that_says_nothing_sound(
    command: tuple[str, ...], error: type[LucidError], words: str
) -> None:
    with pytest.raises(error, match=words):
        run_bounded(command, 0.2)


@pytest.mark.parametrize("text", ["", "1.01", "-0.1", "nan", "inf", "65 %", "0.5 0.6", "x" * 5_000])
def test_what_is_no_share_is_refused_by_its_value(text: str) -> None:
    with pytest.raises(BadInputError, match="the usage of inference is") as raised:
        usage_of_text(text, "the file")
    assert len(str(raised.value)) < 300


def test_a_file_counts_while_it_is_fresh_and_a_file(tmp_path: Path) -> None:
    path = tmp_path / "usage"
    with pytest.raises(ServiceUnavailableError, match="cannot be read"):
        read(usage_file=str(path))
    path.write_text("0.75")
    assert read(usage_file=str(path)) == 0.75
    os.utime(path, (time.time() - 301, time.time() - 301))
    with pytest.raises(ServiceUnavailableError, match="more than 300 s ago"):
        read(usage_file=str(path))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ServiceUnavailableError, match="not a file"):
        read(usage_file=str(tmp_path / "pipe"))


@pytest.fixture
def prometheus() -> Iterator[tuple[str, list[str]]]:
    """A server that answers range queries as Prometheus does, with the texts of the list."""
    answers: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = answers[-1].encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", answers
    server.shutdown()
    server.server_close()


def test_a_prometheus_is_asked_for_one_number(prometheus: tuple[str, list[str]]) -> None:
    url, answers = prometheus
    matrix = '{"status": "success", "data": {"resultType": "matrix", "result": [%s]}}'
    one = '{"metric": {}, "values": [[1, "%s"]]}'
    answers.append(matrix % (one % "0.61"))
    assert read(usage_url=url, usage_query="avg(busy)") == 0.61
    answers.append(matrix % f"{one % 0.1}, {one % 0.2}")
    with pytest.raises(BadInputError, match="gave 2 series"):
        read(usage_url=url, usage_query="busy")
    answers.append(matrix % (one % "17"))
    with pytest.raises(BadInputError, match=r"'17\.0'"):
        read(usage_url=url, usage_query="sum(busy)")


def test_without_a_source_nothing_is_read() -> None:
    assert usage_reader(NodeLoanSettings()) is None
