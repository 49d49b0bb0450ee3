"""What a person may name as a file, and what is said of all the rest."""

import gzip
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster_logs.ingest import read_jobs_file
from foundation.disk_errors import disk_error
from foundation.errors import LucidError
from foundation.storage import open_input, read_input
from tests.evidence import Evidence

LOG = Path(__file__).parents[1] / "cluster_logs" / "data" / "helios.csv"
SAMPLE = LOG.read_bytes()


@pytest.fixture
def pipe(tmp_path: Path) -> str:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return str(path)


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[str]:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        yield str(tmp_path / "socket")


def refusal(uri: str) -> str:
    with pytest.raises(LucidError) as refused:
        open_input(uri)
    return str(refused.value)


@pytest.mark.evidence(table="faults", rows=("22",))
def test_only_a_file_is_opened(pipe: str, listening: str, tmp_path: Path, evidence: Evidence) -> None:
    """A pipe without a writer would be waited for without end."""
    assert "is a pipe, not a file" in refusal(pipe)
    assert "cannot be opened" in refusal(listening)
    assert "is a device" in refusal("/dev/null")
    assert "is a folder" in refusal(str(tmp_path))
    assert "There is no file" in refusal(str(tmp_path / "absent"))
    assert "There is no file" in refusal(str(Path(pipe) / "below"))
    assert "names no file" in refusal("a\0b")
    assert "names no file" in refusal("~no-such-user/log.csv")
    assert "so long a name" in refusal("x" * 5_000)
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert "symbolic link" in refusal(str(loop))
    evidence(
        "faults",
        "22",
        "Pipes, sockets, devices, folders and loops of links are refused by name, and nothing waits.",
    )


def test_every_reader_of_a_log_asks_so(pipe: str) -> None:
    for source_format in ("helios", "philly-json", "lake", "sacct"):
        with pytest.raises(LucidError, match="pipe"):
            read_jobs_file(pipe, source_format)


def test_a_file_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("x")
    path.chmod(0)
    ours = os.geteuid()
    if ours == 0:
        os.seteuid(65_534)  # root may read everything
    try:
        said = refusal(str(path))
    finally:
        os.seteuid(ours)
    assert "cannot be opened: Permission denied" in said


def test_a_name_that_is_not_utf_8_is_spelt_out(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/log-\xff.csv")
    Path(path).write_bytes(SAMPLE)
    jobs, _ = read_jobs_file(path, "helios")
    assert set(jobs["source_file"]) == {"log-\\xff.csv"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (gzip.compress(b""), "is empty"),
        (gzip.compress(gzip.compress(SAMPLE)), "compressed twice"),
        (gzip.compress(SAMPLE)[:-20], "truncated or damaged"),
        (b"PK\x03\x04" + SAMPLE, "ZIP archive"),
        (SAMPLE.decode().encode("utf-16"), "UTF-16"),
        (SAMPLE.decode().encode("utf-16-le"), "no UTF-8 text"),
        (b"BZh91AY", "bzip2"),
        (b"PAR1abc", "Its format is lake"),
    ],
    ids=range(9),
)
def test_what_is_no_text_is_named(content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(content)
    for source_format in ("helios", "philly-json", "swf"):
        with pytest.raises(LucidError, match=said):
            read_jobs_file(str(path), source_format)


def test_windows_lines_marks_and_members_are_no_matter(tmp_path: Path) -> None:
    """A byte order mark, CRLF, and a gzip of several members (as log rotation joins them)."""
    plain, _ = read_jobs_file(str(LOG), "helios")
    half = len(SAMPLE) // 2
    for content in (
        b"\xef\xbb\xbf" + SAMPLE.replace(b"\n", b"\r\n"),
        gzip.compress(SAMPLE[:half]) + gzip.compress(SAMPLE[half:]),
    ):
        path = tmp_path / "helios.csv"
        path.write_bytes(content)
        jobs, _ = read_jobs_file(str(path), "helios")
        assert jobs.equals(plain)


def test_a_small_file_has_a_limit(tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(b"12345")
    assert read_input(str(tmp_path / "small"), most_bytes=5) == b"12345"
    with pytest.raises(LucidError, match="5 bytes, more than the 4"):
        read_input(str(tmp_path / "small"), most_bytes=4)


@pytest.mark.evidence(table="faults", rows=("6",))
@pytest.mark.slow
def test_a_full_disk_is_one_sentence(tmp_path: Path, evidence: Evidence) -> None:
    """Files may not grow here: what an ingest says, and that it leaves the lake as it was."""
    log = tmp_path / "helios.csv"
    log.write_bytes(SAMPLE)
    lake = tmp_path / "lake"
    command = [
        sys.executable,
        "-m",
        "lucid_cli.main",
        "ingest",
        "--format",
        "helios",
        "--cluster",
        "venus",
    ]

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, 1_000))

    said = subprocess.run(
        [*command, "--input", str(log), "--lake", str(lake)],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=small_files,
        # Or it leaves the tree's modules compiled as far as the limit, which every later process stumbles on.
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert said.returncode == 1, said.stderr
    assert "File too large" in said.stderr
    assert "Traceback" not in said.stderr
    assert "unexpected" not in said.stderr
    assert not [path for path in lake.rglob("*.parquet") if path.is_file()]
    evidence(
        "faults",
        "6",
        "One sentence says that a file could not grow; the lake holds no file of the ingest.",
    )


@pytest.mark.parametrize("number", [28, 30, 27, 122, 13])
def test_what_the_disk_refuses_has_a_remedy(number: int) -> None:
    known = disk_error(OSError(number, os.strerror(number), "/lake/jobs.parquet"))
    assert known is not None
    assert "/lake/jobs.parquet" in str(known)
    assert known.remedy


def test_another_error_is_none_of_the_disks() -> None:
    assert disk_error(OSError("no number")) is None
    assert disk_error(ValueError("28")) is None
