"""What is packed small and large inside is refused wherever a file of others is unpacked."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster_logs.metrics.allocations import read_allocations
from cluster_logs.metrics.metric_files import read_samples_file
from foundation.errors import BadInputError


@pytest.mark.parametrize(
    ("name", "head", "line", "read"),
    [
        (
            "allocations.csv.gz",
            "job_id,gpu_uuid,start_time\n",
            "1,GPU-1,2020-04-01T00:00:00\n",
            read_allocations,
        ),
        ("metrics.prom.gz", "", 'DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1"} 50 1585699200000\n', read_samples_file),
    ],
)
def test_metrics_unpack_to_what_may_be(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    head: str,
    line: str,
    read: Callable[[str], object],
) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress((head + line * 100_000).encode()))
    monkeypatch.setenv("LUCID_MOST_LOG_BYTES", "1000000")
    with pytest.raises(BadInputError, match=rf"{name} holds more than 1,000,000 bytes when it is unpacked"):
        read(str(path))
    path.write_bytes(gzip.compress((head + line).encode()))
    read(str(path))
