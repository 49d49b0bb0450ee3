"""A lake in an object store that is slow, busy, at fault, or knows the credentials no longer."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster_logs import store_lock
from cluster_logs.ingest import ingest_log
from cluster_logs.lake import Lake
from foundation.errors import HalfWrittenError
from tests.cluster_logs.test_one_writer import write_log
from tests.evidence import Evidence
from tests.faults.object_store import ObjectStore, object_store

pytestmark = pytest.mark.slow
LAKE = "s3://lake/root"
LEASE_S = 10.0  # for so long a writer that failed is taken for a living one
INGEST = f"""
import sys
from cluster_logs import store_lock
from cluster_logs.ingest import ingest_log
store_lock.LEASE_S, store_lock.RENEW_EVERY_S = {LEASE_S}, 1.0
ingest_log(source_format="helios", input_uri=sys.argv[1], cluster="venus", lake_uri=sys.argv[2])
"""


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    monkeypatch.setattr(store_lock, "LEASE_S", 10.0)  # for so long a failed writer is taken for a living one
    monkeypatch.setattr(store_lock, "RENEW_EVERY_S", 1.0)
    with object_store() as running:
        settings = {"AWS_ENDPOINT_URL": running.uri, "AWS_EC2_METADATA_DISABLED": "true"}
        settings |= {
            "AWS_ACCESS_KEY_ID": "lucid",
            "AWS_SECRET_ACCESS_KEY": "x",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        yield running


def ingest(folder: Path, first: int) -> int:
    log = write_log(folder / f"{first}.csv", first)
    return ingest_log(source_format="helios", input_uri=str(log), cluster="venus", lake_uri=LAKE).rows_kept


def ids() -> set[int]:
    return set(map(int, Lake(LAKE).read_jobs("venus")["job_id"]))


@pytest.mark.evidence(table="faults", rows=("43",))
def test_a_store_that_is_slow_or_answers_some_requests_with_errors(
    store: ObjectStore, tmp_path: Path, evidence: Evidence
) -> None:
    assert ingest(tmp_path, 1_000) == 100
    store.refuse, store.refuse_every = (503, "SlowDown"), 5
    assert ingest(tmp_path, 2_000) == 100
    assert store.refused > 10
    store.refuse, store.delay_s = None, 0.05
    assert ingest(tmp_path, 3_000) == 100
    store.delay_s = 0.0
    assert ids() == {first + number for first in (1_000, 2_000, 3_000) for number in range(100)}
    evidence("faults", "43", "Slow, or with every fifth request refused (`SlowDown`), no row is lost.")


@pytest.mark.evidence(table="faults", rows=("43", "45"))
@pytest.mark.parametrize(
    ("refusal", "row", "remedy"),
    [((503, "SlowDown"), "43", "when it answers"), ((403, "ExpiredToken"), "45", "renew them")],
)
def test_a_store_that_refuses_everything(
    store: ObjectStore,
    tmp_path: Path,
    refusal: tuple[int, str],
    row: str,
    remedy: str,
    evidence: Evidence,
) -> None:
    ingest(tmp_path, 1_000)
    before = dict(store.objects)
    store.refuse = refusal
    words = ("ingest", "--format", "helios", "--cluster", "venus", "--lake", LAKE)
    log = write_log(tmp_path / "2000.csv", 2_000)
    said = subprocess.run(
        [sys.executable, "-m", "lucid_cli.main", *words, "--input", str(log)],
        env=os.environ | {"AWS_MAX_ATTEMPTS": "2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 1
    (line,) = [line for line in said.stderr.splitlines() if line.startswith("Error: ")]
    assert "The object store refused" in line
    assert remedy in line
    assert "unexpected" not in line
    assert store.objects == before
    store.refuse = None
    assert ingest(tmp_path, 2_000) == 100
    advice = line.rpartition(". ")[2]
    evidence("faults", row, f"`{refusal[1]}` to all requests: one sentence, and its advice: {advice}")


@pytest.mark.evidence(table="faults", rows=("43",))
def test_a_store_that_fails_in_the_middle_of_an_ingest(
    store: ObjectStore, tmp_path: Path, evidence: Evidence
) -> None:
    ingest(tmp_path, 1_000)
    store.requests = 0
    ingest(tmp_path, 2_000)
    store.fails_after = store.requests // 2
    store.requests, store.refuse = 0, (400, "InternalError")  # 400: the client does not try again
    log = write_log(tmp_path / "3000.csv", 3_000)
    failed = subprocess.run([sys.executable, "-c", INGEST, str(log), LAKE], capture_output=True, check=False)
    assert b"AWS Error" in failed.stderr
    store.refuse = None
    with pytest.raises(HalfWrittenError) as half:
        ids()
    assert ingest(tmp_path, 3_000) == 100
    assert ids() == {first + number for first in (1_000, 2_000, 3_000) for number in range(100)}
    assert "half-written" in str(half.value)
    evidence(
        "faults", "43", "Failing half-way, readers are told so (half-written); run again, no row is lost."
    )
