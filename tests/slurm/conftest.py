"""One private Slurm for all tests of a session that ask for it."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.slurm import accounted_slurm
from tests.slurm.live_cluster import LiveCluster
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


@contextmanager
def private_slurm(
    *, nodes: Sequence[Node], partitions: Sequence[Partition], accounting: bool = False, **settings: str
) -> Iterator[PrivateSlurm]:
    """Run a cluster in a folder that goes with it; `settings` are lines of its slurm.conf."""
    skip_without_slurm(accounting=accounting)
    folder = short_folder()
    settings = {"MessageTimeout": "2"} | settings  # seconds until a command gives a dead controller up
    try:
        with PrivateSlurm(folder, nodes, partitions, accounting=accounting, settings=settings) as slurm:
            yield slurm
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def running_slurm() -> Iterator[PrivateSlurm]:
    """Two nodes of a virtual cluster and two for profiling, without accounting."""
    with private_slurm(
        nodes=(Node("n1"), Node("n2"), Node("p1", gpus=2), Node("p2", gpus=2)),
        partitions=(Partition("vc1", ("n1", "n2")), Partition("prof", ("p1", "p2"), max_time_min=60)),
    ) as slurm:
        yield slurm


@pytest.fixture
def live_settings() -> str:
    """Further lines of the live scheduler's settings; a test file may have its own."""
    return ""


@pytest.fixture
def cluster(
    one_slurm: PrivateSlurm,
    tmp_path: Path,
    small_model_files: dict[str, list[Path]],
    live_settings: str,
) -> Iterator[LiveCluster]:
    """The live scheduler on the Slurm `one_slurm` of a test file, which has no release yet."""
    cluster = LiveCluster(one_slurm, tmp_path, small_model_files, settings=live_settings)
    try:
        yield cluster
    finally:
        cluster.end()


def commands_talk_to(cluster: PrivateSlurm, monkeypatch: pytest.MonkeyPatch) -> Iterator[PrivateSlurm]:
    """Have this process's commands talk to a cluster for a test; what is left in the queue is cancelled."""
    environment = cluster.environment()
    monkeypatch.setenv("SLURM_CONF", environment["SLURM_CONF"])
    monkeypatch.setenv("PATH", environment["PATH"])
    yield cluster
    cluster.clear()


@pytest.fixture
def slurm(running_slurm: PrivateSlurm, monkeypatch: pytest.MonkeyPatch) -> Iterator[PrivateSlurm]:
    """The cluster that this process's commands talk to; what a test leaves in the queue is cancelled."""
    yield from commands_talk_to(running_slurm, monkeypatch)


@pytest.fixture
def own_folder() -> Iterator[Path]:
    """A folder for a cluster of a test's own."""
    folder = short_folder()
    yield folder
    shutil.rmtree(folder)


def start_accounted_slurm() -> AbstractContextManager[PrivateSlurm]:
    """Two virtual clusters and a partition for profiling, with accounting."""
    return private_slurm(nodes=accounted_slurm.NODES, partitions=accounted_slurm.PARTITIONS, accounting=True)


@pytest.fixture(scope="session")
def running_accounted_slurm() -> Iterator[PrivateSlurm]:
    """A cluster with accounting for all tests of a session."""
    with start_accounted_slurm() as slurm:
        yield slurm


@pytest.fixture
def own_accounted(monkeypatch: pytest.MonkeyPatch) -> Iterator[PrivateSlurm]:
    """A cluster whose accounting holds what one test has done, and which it may rewrite."""
    with start_accounted_slurm() as slurm:
        yield from commands_talk_to(slurm, monkeypatch)


@pytest.fixture
def accounted(
    running_accounted_slurm: PrivateSlurm, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PrivateSlurm]:
    """As `slurm`, with accounting."""
    yield from commands_talk_to(running_accounted_slurm, monkeypatch)
