"""A live daemon lends by the settings and the forecast of inference that the release it follows pins."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from live_scheduler.client import ReleaseClient
from live_scheduler.daemon import Daemon
from live_scheduler.live_settings import LiveSettings, Mode
from live_scheduler.release import LiveRelease
from lucid_models.model_format import save_model
from parts.lending.live.giving_back import LoanRecord
from parts.lending.live.lender import NodeLender
from parts.lending.live.settings import NodeLoanSettings
from parts.lending.live.usage import InferenceUsage
from parts.lending.load.series import InferenceSeries
from parts.lending.replay.forecast import BIN_S
from parts.lending.replay.released_loans import ReleasedLoans
from parts.lending.tests.live.memory_loans import MemoryLoans, PlainLease
from parts.lending.usage.model import InferenceLoadModel
from tests.live_scheduler.live_release import AWAY, keep_release
from tests.live_scheduler.memory_cluster import MemoryCluster

PINNED = ReleasedLoans.from_data({"headroom": 0.1, "period_s": 60.0, "quantile": 0.95}).to_data()
START_S = 1_900_000_200.0
USAGE = 0.4
NODES = 20


@pytest.fixture(scope="module")
def load_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """The forecast of a pool whose usage swings by a tenth from bin to bin."""
    swings = np.clip(USAGE + np.random.default_rng(0).normal(0, 0.1, 300), 0, 1)
    model = InferenceLoadModel().fit(InferenceSeries(0.0, swings, np.zeros(300, dtype=bool), NODES))
    path = tmp_path_factory.mktemp("load") / "inference_load.json"
    save_model(model.to_data(), path)
    return {"inference_load": [path]}


@contextmanager
def lending_daemon(folder: Path, files: dict[str, list[Path]], loaning: dict | None) -> Iterator[Daemon]:
    """A daemon over clusters in memory that follows a release which it kept, its server away."""
    keep_release(folder / "releases", files, loaning=loaning)
    client = ReleaseClient(AWAY, "champion", folder / "releases", cluster="small")
    settings = NodeLoanSettings(Mode.CONTROL, usage_every_s=1.0)
    cluster = MemoryCluster(at_s=START_S)
    cluster.submit()
    daemon = Daemon(cluster, client, LiveSettings("small", mode=Mode.OBSERVE), folder)
    usage = InferenceUsage(settings, folder, lambda: USAGE)
    loans = MemoryLoans.of(NODES)
    daemon.part_stages["loans"] = NodeLender(loans, settings, usage, PlainLease(LoanRecord(folder)))
    try:
        yield daemon
    finally:
        client.close()


def look(daemon: Daemon, after_s: float = 0.0) -> None:
    assert isinstance(daemon.adapter, MemoryCluster)
    daemon.adapter.at_s += after_s
    assert daemon.pass_once().problem is None


def test_settings_and_forecast_are_those_of_the_release(
    tmp_path: Path, small_model_files: dict[str, list[Path]], load_files: dict[str, list[Path]]
) -> None:
    with lending_daemon(tmp_path, small_model_files | load_files, PINNED) as daemon:
        look(daemon)
        view = daemon.part_stages["loans"].view
        # 8 of 20 nodes are needed, and 2 are headroom: no bin has ended, so that nothing is forecast.
        assert (view.needed, view.headroom, view.target, view.forecast) == (8, 2, 10, None)
        assert "headroom 0.1" in view.rule
        assert "quantile 0.95" in view.rule
        look(daemon, BIN_S)
        view = daemon.part_stages["loans"].view
        release = daemon.releases.current
        assert isinstance(release, LiveRelease)
        scorer = release.scorers.forecasts["inference_load"]
        assert scorer is not None
        said = scorer.forecast(np.array([USAGE]), START_S // BIN_S * BIN_S).quantiles[0.95]
        assert view.forecast == pytest.approx(said)
        assert said > USAGE
        needed = int(np.ceil(said * NODES - 1e-9))
        assert (view.needed, len(view.on_loan)) == (needed, NODES - needed - 2)


def test_without_the_part_the_defaults_and_the_usage_alone_count(
    tmp_path: Path, small_model_files: dict[str, list[Path]]
) -> None:
    with lending_daemon(tmp_path, small_model_files, None) as daemon:
        look(daemon)
        look(daemon, 2 * BIN_S)
        view = daemon.part_stages["loans"].view
        assert (view.needed, view.headroom, view.forecast) == (8, 1, None)
        assert "the release has no forecast" in view.rule
