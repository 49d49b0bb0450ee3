"""Fixtures that the tests of several packages share, and how the tests run."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foundation.site import Site

# Before NumPy is imported: tests run side by side already, and threads that wait for each other spin.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import httpx
import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from tests import limits, reference, rest, tiers
from tests.built_once import built_once
from tests.collecting import after_the_first
from tests.command_line import lucid as lucid
from tests.evidence import declare
from tests.evidence import evidence as evidence
from tests.limits import pytest_fixture_setup as pytest_fixture_setup
from tests.limits import pytest_runtest_teardown as pytest_runtest_teardown
from tests.running_order import TESTS, ByServer, rank_of
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    import pandas as pd

    from tests.small_cluster import World

# The same examples in every run, however busy the machine; HYPOTHESIS_PROFILE=explore looks for new ones.
settings.register_profile(
    "repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("explore", settings.get_profile("repeatable"), derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

# What is signed is a matter of the tests that are about it; they delete this word, or name keys of their own.
os.environ.setdefault("LUCID_TRUST", "unsigned")

# Read by MLflow when it is imported: no test sends anything anywhere.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("DO_NOT_TRACK", "true")


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, Any, Any]:
    if not hasattr(session.config, "workerinput"):
        return (yield)
    with after_the_first(TESTS):
        return (yield)


def pytest_addoption(parser: pytest.Parser) -> None:
    limits.add_setting(parser)
    rest.add_option(parser)
    tiers.add_option(parser)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return tiers.ignores(config, collection_path) or None  # None: the others decide


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    rest.keep_rest(config, items)
    tiers.keep_tier(config, items)
    reference.skip_without_data(items)
    declare(items)
    items.sort(key=rank_of)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByServer:
    config.option.loadscopereorder = False  # the order is ours
    return ByServer(config, log)


class _FailuresAsTheyHappen:
    """Names what failed at once, so that a run that is broken off has told."""

    def __init__(self, terminal: Any) -> None:
        self._terminal = terminal

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            why = crash.message.partition("\n")[0] if crash is not None else ""
            self._terminal.ensure_newline()
            self._terminal.write_line(f"FAILED {report.nodeid} ({report.when}) {why}"[:300], flush=True)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    terminal = config.pluginmanager.getplugin("terminalreporter")
    if terminal is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_FailuresAsTheyHappen(terminal))
        rest.watch(config)


def free_port() -> int:
    """A loopback port on which nothing listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@dataclass
class MlflowServer:
    """A real MLflow server on SQLite and local artifacts, that a test may stop and start again."""

    folder: Path
    port: int = field(default_factory=free_port)
    app: str = "mlflow.server.fastapi_app:app"  # or a function that makes it, with () behind its name
    accounts: Mapping[str, str] = field(default_factory=dict)  # more of its environment
    process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        # What `mlflow server` starts, without a process that imports all of it only to start another.
        environment = os.environ | {
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "DO_NOT_TRACK": "true",
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            "_MLFLOW_SGI_NAME": "uvicorn",
            "_MLFLOW_SERVER_FILE_STORE": f"sqlite:///{self.folder / 'mlflow.db'}",
            "_MLFLOW_SERVER_ARTIFACT_ROOT": "mlflow-artifacts:/",
            "_MLFLOW_SERVER_SERVE_ARTIFACTS": "true",
            "_MLFLOW_SERVER_ARTIFACT_DESTINATION": str(self.folder / "artifacts"),
            **self.accounts,
        }
        command = [
            sys.executable, "-m", "uvicorn", self.app.removesuffix("()"),
            *(["--factory"] if self.app.endswith("()") else []),
            "--host", "127.0.0.1", "--port", str(self.port),
        ]  # fmt: skip
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                command, cwd=self.folder, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + PATIENCE_S
        with httpx.Client(timeout=20) as client:  # one for all asking: making one reads all certificates
            while time.monotonic() < deadline:
                if self.process.poll() is not None:
                    raise RuntimeError((self.folder / "server.log").read_text()[-4_000:])
                try:
                    if client.get(f"{self.uri}/health").status_code == 200:
                        return
                except httpx.HTTPError:
                    pass
                time.sleep(0.1)
        raise RuntimeError(f"MLflow did not answer on {self.uri} within {PATIENCE_S:g} s")

    def stop(self) -> None:
        if self.process is None:
            return
        # The server forks workers; all of them are in the session that was started for it.
        os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(timeout=20)
        self.process = None


@pytest.fixture(scope="session")
def mlflow_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URI of an MLflow server that all tests of the session share."""
    server = MlflowServer(tmp_path_factory.mktemp("mlflow"))
    server.start()
    try:
        yield server.uri
    finally:
        server.stop()


@pytest.fixture(scope="module")
def own_mlflow_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MlflowServer]:
    """An MLflow server of one test module, for tests that move aliases or stop the server."""
    server = MlflowServer(tmp_path_factory.mktemp("own-mlflow"))
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def own_registry(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URI of a registry of one test module: a SQLite file, without a server before it."""
    return f"sqlite:///{tmp_path_factory.mktemp('registry') / 'mlflow.db'}"


def small_profiles() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Solo and pair profiles of twelve configurations: a busy GPU slows its partner."""
    import pandas as pd

    utils = np.linspace(8.0, 97.0, 12)
    solo = pd.DataFrame(
        {
            "job_type": [f"net{i}/data/64/0" for i in range(12)],
            "model": [f"net{i // 2}" for i in range(12)],
            "dataset": "data",
            "batch_size": 64,
            "amp": 0,
            "speed": 1.0,
            "gpu_util_pct": utils,
            "gpu_mem_util_pct": utils / 2,
            "gpu_mem_mib": 1_000 + 100 * utils,
            "device": "test GPU",
            "simulated": True,
        }
    )
    left, right = np.triu_indices(12)
    slow = np.maximum((utils[left] + utils[right] - 90.0) / 200.0, 0.0)
    pairs = pd.DataFrame(
        {
            "job_type_1": solo["job_type"].to_numpy()[left],
            "speed_1": 1.0 - slow,
            "job_type_2": solo["job_type"].to_numpy()[right],
            "speed_2": 1.0 - slow,
            "gpu_util_pct": np.minimum(utils[left] + utils[right], 100.0),
            "gpu_mem_util_pct": 50.0,
            "gpu_mem_mib": 9_000.0,
            "device": "test GPU",
            "simulated": True,
        }
    )
    return solo, pairs


def small_jobs(jobs: int = 600, seed: int = 0) -> pd.DataFrame:
    """Six users with their own run times, over ten days (the columns of JOB_SCHEMA that matter)."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    user = rng.integers(0, 6, jobs)
    submit = pd.Timestamp("2020-04-01", tz="UTC") + pd.to_timedelta(
        np.sort(rng.integers(0, 10 * 86_400, jobs)), unit="s"
    )
    duration = np.round(np.exp(5.5 + user + rng.normal(0, 0.4, jobs)))
    return pd.DataFrame(
        {
            "job_id": [f"j{i}" for i in range(jobs)],
            "virtual_cluster": "vc",
            "user": [f"u{u}" for u in user],
            "name": [f"train_u{u}" for u in user],
            "gpus": rng.choice([1, 2, 4, 8], jobs).astype("int32"),
            "gpu_share": 1.0,
            "submit_time": submit,
            "start_time": submit,
            "end_time": submit + pd.to_timedelta(duration, unit="s"),
            "duration_s": duration,
            "service_s": duration,
            "queuing_delay_s": 0.0,
            "state": "COMPLETED",
            "source_file": "small.synthetic",
            "source_row": np.arange(1, jobs + 1),
        }
    )


def small_throughput(bins: int = 144 * 10, seed: int = 0) -> pd.DataFrame:
    """Ten days of ten-minute bins with a daily pattern (THROUGHPUT_SCHEMA)."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    time_of_day = np.arange(bins) % 144
    counts = rng.poisson(5 + 4 * np.sin(2 * np.pi * time_of_day / 144))
    return pd.DataFrame(
        {
            "bin_start": pd.Timestamp("2020-04-01", tz="UTC")
            + pd.to_timedelta(600 * np.arange(bins), unit="s"),
            "bin_s": 600,
            "submitted_jobs": counts,
            "submitted_gpu_jobs": counts,
            "submitted_gpus": 2 * counts,
            "origin": "derived",
        }
    )


def fill_small_lake(root: Path) -> None:
    """A lake with ten days of `small`, a cluster of five virtual clusters, and its profiles."""
    import pandas as pd

    from cluster_logs.lake import Lake
    from pipeline.profiling.profile_store import write_profile_set
    from profiler_jobs.profile_table import ProfileSet

    jobs = small_jobs(400)
    jobs["virtual_cluster"] = [f"vc{i % 5}" for i in range(len(jobs))]
    # The small models learned until midnight of the 10th: the last day begins later than that.
    late = pd.Timestamp("2020-04-11T12:00", tz="UTC") - jobs["submit_time"].iloc[-1]
    for column in ("submit_time", "start_time", "end_time"):
        jobs.loc[jobs.index[-1], column] += late
    names = sorted(set(jobs["virtual_cluster"]))
    nodes = pd.DataFrame({"virtual_cluster": names, "nodes": 4, "gpus_per_node": 8, "date": None})
    table = Lake(str(root))
    table.write_jobs("small", jobs)
    table.write_nodes("small", nodes)
    solo, pairs = small_profiles()
    write_profile_set(
        Site(lake=str(root), cluster="small"), ProfileSet(solo, pairs, out_of_memory=pd.DataFrame())
    )


SMALL_KINDS = ("packing", "throughput", "duration")


@pytest.fixture(scope="session")
def small_model_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """Kind -> two saved models that differ, fitted on small data."""
    saved = os.environ.get("LUCID_SMALL_MODELS")  # where nothing can be fitted (tests/pythons.py)
    folder = Path(saved) if saved else built_once(tmp_path_factory, "small-models", save_small_models)
    return saved_small_models(folder)


def saved_small_models(folder: Path) -> dict[str, list[Path]]:
    """Kind -> the files that `save_small_models` wrote."""
    return {kind: [folder / seed / f"{kind}.json" for seed in "01"] for kind in SMALL_KINDS}


def save_small_models(folder: Path) -> None:
    """Fit two models of each kind and save them as SEED/KIND.json."""
    from lucid_models.boosting import BoostingSettings
    from lucid_models.duration.model import DurationSettings, WorkloadEstimateModel
    from lucid_models.model_format import save_model
    from lucid_models.packing.model import PackingAnalyzeModel, PackingSettings
    from lucid_models.throughput.model import ThroughputPredictModel, ThroughputSettings
    from lucid_models.throughput.scorer import SERIES, ThroughputForecasts

    fast = BoostingSettings(bags=2, max_rounds=40, max_bins=32)
    solo, pairs = small_profiles()
    for seed in (0, 1):
        documents = {
            "packing": PackingAnalyzeModel(PackingSettings(min_samples_leaf=2 + seed))
            .fit(solo, pairs)
            .to_data(),
            "throughput": ThroughputForecasts(
                {
                    series: ThroughputPredictModel(ThroughputSettings(boosting=fast))
                    .fit(small_throughput(seed=seed), series)
                    .scorer
                    for series in SERIES
                }
            ).to_data(),
            "duration": WorkloadEstimateModel(DurationSettings(log_boosting=fast, mean_boosting=fast))
            .fit(small_jobs(seed=seed))
            .to_data(),
        }
        for kind, document in documents.items():
            (folder / str(seed)).mkdir(exist_ok=True)
            save_model(document, folder / str(seed) / f"{kind}.json")


def register_small_models(
    tracking_uri: str, files: dict[str, list[Path]], cluster: str = "small", *, synthetic: bool = True
) -> None:
    """Register both versions of each kind, as training does."""
    import pandas as pd

    from lucid_models.registry import Registry

    hour = 1_585_699_200
    examples = {
        "packing": pd.DataFrame(
            {"gpu_util_pct": [50.0], "gpu_mem_util_pct": [20.0], "gpu_mem_mib": [2_000.0], "amp": [0.0]}
        ),
        "throughput": pd.DataFrame(
            {
                "bin_start_s": [hour + 600 * i for i in range(50)],
                "submitted_gpu_jobs": [5.0] * 50,
                "submitted_gpus": [9.0] * 50,
            }
        ),
        "duration": pd.DataFrame(
            {"job_id": ["a"], "gpus": [2], "submit_time_s": [float(hour)], "user": ["u1"]}
        ),
    }
    registry = Registry(tracking_uri)
    for kind, paths in files.items():
        name = f"lucid-{kind}"
        registry.ensure_model(name, "test")
        for number, path in enumerate(paths):
            tags = {
                "digest": hashlib.sha256(path.read_bytes()).hexdigest(),
                "dataset_digest": f"{number:064x}",
                "training_until": "2020-04-10T00:00:00+00:00",
            }
            if kind == "packing":
                tags = {**tags, "simulated_profiles": "true"}
                del tags["training_until"]
            else:
                tags = {**tags, "cluster": cluster, "synthetic_logs": str(synthetic).lower()}
            with registry.run("lucid-training", f"test {kind}") as run:
                uri, model_id = run.log_scorer(name, kind, path, examples[kind])
                registry.create_version(name, uri, run.run_id, tags, description="test", model_id=model_id)


def forget_releases(tracking_uri: str) -> None:
    """Delete the registered releases of all clusters, so that a test starts from none."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri)
    for model in client.search_registered_models("name LIKE 'lucid-release%'"):
        client.delete_registered_model(model.name)


def forget_new_models(tracking_uri: str, *, stock: int) -> None:
    """Delete the versions of models that earlier tests have trained beyond the stock."""
    from lucid_models.releases.building import model_name
    from lucid_models.releases.manifest import MODEL_KINDS
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri)
    for model in client.search_registered_models("name LIKE 'lucid-%'"):
        if model.name.startswith(tuple(f"{model_name(kind, None)}-" for kind in MODEL_KINDS)):
            client.delete_registered_model(model.name)  # the stock is in the shared ones
    for found in client.search_model_versions():
        if int(found.version) > stock:
            client.delete_model_version(found.name, found.version)


def forget_monitoring(tracking_uri: str) -> None:
    """Delete the runs of earlier monitoring passes, which a new one would read."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri)
    experiment = client.get_experiment_by_name("lucid-monitoring")
    for run in client.search_runs([experiment.experiment_id]) if experiment else ():
        client.delete_run(run.info.run_id)


@dataclass(frozen=True)
class LocalRegistry:
    """MLflow in an SQLite file, with its artifacts beside it: nothing but this process works on it."""

    folder: Path

    @property
    def uri(self) -> str:
        return f"sqlite:///{self.folder / 'mlflow.db'}"


@dataclass
class ReleaseShop:
    """A registry with two versions of each small model, and no release yet."""

    server: MlflowServer | LocalRegistry
    files: dict[str, list[Path]]

    @property
    def uri(self) -> str:
        return self.server.uri

    def approved(
        self, number: int, *, settings: dict[str, object] | None = None, cluster: str = "small"
    ) -> int:
        """Build and judge a release of the models' first (1) or second (2) versions; returns its version."""
        from lucid_models.releases.lifecycle import build_release, record_verdict

        versions = {"packing": number, "throughput": number, "duration": number}
        if cluster != "small":
            versions |= self.lend_models(cluster, number)
        built = build_release(
            tracking_uri=self.uri, cluster=cluster, versions=versions, settings=settings or {"gss": 2}
        )
        verdict = {"approved": True, "sentence": "No loss was found.", "objective": {"change_pct": -3.0}}
        record_verdict(tracking_uri=self.uri, cluster=cluster, version=built.version, verdict=verdict)
        return built.version

    def lend_models(self, cluster: str, number: int, *, synthetic: bool = True) -> dict[str, int]:
        """Register the models of jobs once more, as another cluster's; returns kind -> version."""
        from lucid_models.registry import Registry

        registry = Registry(self.uri)
        made = {}
        for kind in ("throughput", "duration"):
            model = registry.version(f"lucid-{kind}", number)
            known = registry.client.get_model_version(model.name, str(number))
            made[kind] = registry.create_version(
                model.name,
                known.source,
                model.run_id,
                {**model.tags, "cluster": cluster, "synthetic_logs": str(synthetic).lower()},
                description="test",
                model_id=known.source.removeprefix("models:/"),
            )
        return made


@pytest.fixture(scope="session")
def stocked_server(
    tmp_path_factory: pytest.TempPathFactory, small_model_files: dict[str, list[Path]]
) -> Iterator[MlflowServer]:
    """A server with two versions of each model, shared by all tests that use `shop`."""
    server = MlflowServer(tmp_path_factory.mktemp("stocked-mlflow"))
    server.start()
    try:
        register_small_models(server.uri, small_model_files)
        yield server
    finally:
        server.stop()


@pytest.fixture
def shop(stocked_server: MlflowServer, small_model_files: dict[str, list[Path]]) -> ReleaseShop:
    """A registry with models and without releases."""
    forget_releases(stocked_server.uri)
    forget_new_models(stocked_server.uri, stock=2)
    return ReleaseShop(stocked_server, small_model_files)


@pytest.fixture(scope="session")
def stocked_file(
    tmp_path_factory: pytest.TempPathFactory, small_model_files: dict[str, list[Path]]
) -> LocalRegistry:
    """A file with two versions of each model, shared by all tests that use `local_shop`."""
    registry = LocalRegistry(tmp_path_factory.mktemp("stocked-file"))
    register_small_models(registry.uri, small_model_files)
    return registry


@pytest.fixture
def local_shop(stocked_file: LocalRegistry, small_model_files: dict[str, list[Path]]) -> ReleaseShop:
    """What `shop` is, without a server: for tests of what a registry holds, not of how it is reached."""
    forget_releases(stocked_file.uri)
    forget_new_models(stocked_file.uri, stock=2)
    return ReleaseShop(stocked_file, small_model_files)


@dataclass(frozen=True)
class SmallTables:
    """Ten days of a small cluster, and profiles of twelve configurations."""

    jobs: pd.DataFrame
    throughput: pd.DataFrame
    solo: pd.DataFrame
    pairs: pd.DataFrame


@pytest.fixture(scope="session")
def small_tables() -> SmallTables:
    return SmallTables(small_jobs(), small_throughput(), *small_profiles())


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """The small cluster and a release of it; a test that writes to its lake copies it first."""
    from tests.small_cluster import make_world  # models: for the tests that need them

    return make_world(tmp_path_factory.mktemp("lake"))


@pytest.fixture(scope="session")
def trained_versions(world: World, mlflow_server: str) -> dict[str, int]:
    """The version of each model of the world, trained into the session's registry once."""
    from tests.small_cluster import train_and_register

    return train_and_register(world, mlflow_server)
