"""Disks that are full or read-only, as the kernel makes them: in a mount namespace of the command's own."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster_logs.test_one_writer import write_log
from tests.evidence import Evidence

pytestmark = pytest.mark.slow


def in_namespace(mounts: str, *words: str | Path) -> "subprocess.CompletedProcess[str]":
    """Run a program where a shell has mounted things first, which no other process sees."""
    shell = ["unshare", "--mount", "--map-root-user", "sh", "-ec", f'{mounts}; "$@"', "sh", *map(str, words)]
    return subprocess.run(shell, capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture(autouse=True)
def _namespaces() -> None:
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-rm", "true"], check=False).returncode:
        pytest.skip("this machine lets no one have a mount namespace of one's own (unshare --mount)")


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A lake with a log in it."""
    said = ingest(tmp_path, tmp_path / "lake", 1_000)
    assert said.returncode == 0, said.stderr
    return tmp_path / "lake"


def ingest(folder: Path, lake: Path, first: int, mounts: str = "true") -> "subprocess.CompletedProcess[str]":
    log = write_log(folder / f"{first}.csv", first)
    words = ("ingest", "--format", "helios", "--cluster", "venus", "--input", log, "--lake", lake, "--json")
    return in_namespace(mounts, sys.executable, "-m", "lucid_cli.main", *words)


def files_of(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*.parquet")}


def one_sentence(said: "subprocess.CompletedProcess[str]") -> str:
    assert said.returncode == 1, said.stderr
    assert "Traceback" not in said.stderr
    assert "unexpected" not in said.stderr
    (line,) = [line for line in said.stderr.splitlines() if line.startswith("Error: ")]
    return line.removeprefix("Error: ")


def in_short(sentence: str) -> str:
    """Without the path, which is another in each run."""
    return sentence.partition(" (")[0].partition(".")[0]


@pytest.mark.evidence(table="faults", rows=("7",))
def test_a_full_folder_of_temporary_files(tmp_path: Path, lake: Path, evidence: Evidence) -> None:
    before, scratch = files_of(lake), tmp_path / "scratch"
    scratch.mkdir()
    # Room for the byte by which Python tries the folder (else it takes another), not for a log.
    full = f"mount -t tmpfs -o size=8k,mode=1777 none {scratch}; export TMPDIR={scratch}"
    sentence = one_sentence(ingest(tmp_path, lake, 2_000, full))
    assert files_of(lake) == before
    again = ingest(tmp_path, lake, 2_000)
    assert json.loads(again.stdout)["rows_kept"] == 100
    evidence(
        "faults", "7", f"{in_short(sentence)}; the lake is as it was; run again with room, no row is lost."
    )


@pytest.mark.evidence(table="faults", rows=("6",))
def test_a_full_disk_below_the_lake(tmp_path: Path, lake: Path, evidence: Evidence) -> None:
    before = {path.relative_to(lake): whole for path, whole in files_of(lake).items()}
    after = tmp_path / "after"
    full = (
        f"cp -r {lake} {tmp_path}/kept; mount -t tmpfs -o size=256k none {lake}; "
        f"cp -r {tmp_path}/kept/. {lake}; head -c 1000000 /dev/zero > {lake}/full 2>/dev/null || true; "
        f"trap 'cp -r {lake} {after}' EXIT"
    )
    sentence = one_sentence(ingest(tmp_path, lake, 2_000, full))
    assert {path.relative_to(after): whole for path, whole in files_of(after).items()} == before
    evidence("faults", "6", f"{in_short(sentence)}; no file of the lake changed.")


@pytest.mark.evidence(table="faults", rows=("8",))
def test_a_read_only_lake(tmp_path: Path, lake: Path, evidence: Evidence) -> None:
    before = files_of(lake)
    read_only = f"mount --bind {lake} {lake}; mount -o remount,ro,bind {lake}"
    sentence = one_sentence(ingest(tmp_path, lake, 2_000, read_only))
    assert files_of(lake) == before
    reads = "import sys; from cluster_logs.lake import Lake; print(len(Lake(sys.argv[1]).read_jobs('venus')))"
    read = in_namespace(read_only, sys.executable, "-c", reads, lake)
    assert read.stdout.strip() == "100", read.stderr
    evidence("faults", "8", f"{in_short(sentence)}; the lake is as it was, and is read.")
