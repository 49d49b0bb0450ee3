"""One private Slurm for all tests of a session that ask for it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm.private_slurm import (
    INSTALL_LINE,
    Node,
    Partition,
    PrivateSlurm,
    missing_programs,
    short_folder,
)


def skip_without_slurm(*, accounting: bool = False) -> None:
    """Skip the test, with the reason, where Slurm's packages are missing."""
    if missing := missing_programs(accounting=accounting):
        pytest.skip(f"{', '.join(missing)} not installed ({INSTALL_LINE})")


@pytest.fixture(scope="session")
def running_slurm() -> Iterator[PrivateSlurm]:
    """Two nodes of a virtual cluster and two for profiling, without accounting."""
    skip_without_slurm()
    folder = short_folder()
    slurm = PrivateSlurm(
        folder,
        nodes=(Node("n1"), Node("n2"), Node("p1", gpus=2), Node("p2", gpus=2)),
        partitions=(Partition("vc1", ("n1", "n2")), Partition("prof", ("p1", "p2"), max_time_min=60)),
        settings={"MessageTimeout": "2"},  # seconds until a command gives a dead controller up
    )
    try:
        with slurm:
            yield slurm
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def slurm(running_slurm: PrivateSlurm, monkeypatch: pytest.MonkeyPatch) -> Iterator[PrivateSlurm]:
    """The cluster that this process's commands talk to; what a test leaves in the queue is cancelled."""
    environment = running_slurm.environment()
    monkeypatch.setenv("SLURM_CONF", environment["SLURM_CONF"])
    monkeypatch.setenv("PATH", environment["PATH"])
    yield running_slurm
    running_slurm.clear()


@pytest.fixture
def own_folder() -> Iterator[Path]:
    """A folder for a cluster of a test's own."""
    folder = short_folder()
    yield folder
    shutil.rmtree(folder)
