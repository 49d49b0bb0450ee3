"""What `pip install .` gives: the light client with NumPy and httpx alone; each extra brings what it says."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from packaging.utils import canonicalize_name

from foundation.extras import missing_extra
from live_scheduler.client import ReleaseClient
from live_scheduler.ranking import rank_queue, read_queue
from lucid_models.releases.lifecycle import publish_release
from lucid_models.signing.installation import Signing
from tests.deployment.locked_environments import (
    ROOT,
    Installation,
    declared,
    distributions,
    install,
)
from tests.wheels import build_wheel

PACKAGES = [*(path.parent for path in ROOT.glob("*/py.typed")), ROOT / "plugins" / "lucid_airflow"]
QUEUE = """job_id,user,virtual_cluster,name,gpus,submit_time
long,u5,vc,train_u5,4,2020-04-12T00:00:00+00:00
short,u0,vc,train_u0,1,2020-04-12T01:00:00+00:00
"""
FOLLOW = """
import json, sys
import live_scheduler
from live_scheduler.client import ReleaseClient
from live_scheduler.ranking import rank_queue, read_queue
client = ReleaseClient(sys.argv[1], "champion", sys.argv[2], cluster="small", trust="unsigned")
ranked = rank_queue(read_queue(sys.argv[3]), client.poll())
status = client.status()
print(json.dumps([status.mode, status.verdict, [[j.job_id, j.priority, j.reason] for j in ranked]]))
"""
# An environment in which no library of an extra can be imported.
WITHOUT_EXTRAS = """
import sys
from foundation.extras import EXTRA_OF
sys.modules.update(dict.fromkeys(EXTRA_OF))
"""
LACKS_TYPER = (
    "Error: This needs typer, which is not installed."
    " Install the extra that brings it, from a checkout: pip install '.[live]'\n"
)

installs = pytest.mark.thorough("installs environments")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def light(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    return install(wheel, tmp_path_factory.mktemp("light") / "environment")


@pytest.fixture(scope="module")
def live(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    return install(wheel, tmp_path_factory.mktemp("live") / "environment", ["live"])


@pytest.fixture
def queue(tmp_path: Path) -> Path:
    path = tmp_path / "queue.csv"
    path.write_text(QUEUE)
    return path


@pytest.mark.slow
def test_numpy_and_httpx_alone_follow_a_release_and_a_command_says_what_it_lacks(
    shop: Any, queue: Path, tmp_path: Path
) -> None:
    publish_release(tracking_uri=shop.uri, cluster="small", version=shop.approved(1))
    code = f"{WITHOUT_EXTRAS}{FOLLOW}\nfrom lucid_cli.__main__ import main; main()"
    arguments = (shop.uri, str(tmp_path / "state"), str(queue))
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (1, LACKS_TYPER)
    mode, verdict, ranked = json.loads(done.stdout)
    assert (mode, verdict) == ("following", "approved")
    assert {job for job, _, _ in ranked} == {"short", "long"}


@installs
@pytest.mark.slow
def test_the_light_client_needs_numpy_and_httpx_alone(light: Installation, tmp_path: Path) -> None:
    assert {requirement.name for requirement in declared()} == {"numpy", "httpx", "httpcore"}
    assert distributions(["verify"]) - distributions() == {"cryptography", "cffi", "pycparser"}
    code = "from importlib.metadata import distributions as d; print(*{each.name for each in d()})"
    installed = light.run("python", "-c", code, cwd=tmp_path).stdout.split()
    assert {canonicalize_name(name) for name in installed} == distributions() | {"lucid-mlops"}


@installs
def test_it_follows_a_release_and_ranks_a_queue(
    light: Installation, shop: Any, queue: Path, tmp_path: Path
) -> None:
    publish_release(tracking_uri=shop.uri, cluster="small", version=shop.approved(1))
    kept = tmp_path / "state"
    done = light.run("python", "-c", FOLLOW, shop.uri, str(kept), str(queue), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    mode, verdict, ranked = json.loads(done.stdout)
    assert (mode, verdict) == ("following", "approved")
    here = rank_queue(
        read_queue(queue), ReleaseClient(shop.uri, "champion", tmp_path / "here", cluster="small").poll()
    )
    assert ranked == [[job.job_id, job.priority, job.reason] for job in here]


@installs
def test_the_command_line_says_which_extra_it_is(light: Installation, tmp_path: Path) -> None:
    done = light.run("lucid", "live", "rank", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == LACKS_TYPER


@installs
def test_the_extra_live_ranks_by_a_signed_release_from_a_shell(
    live: Installation, shop: Any, queue: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUCID_STATE_DIR", str(tmp_path / "publisher"))
    monkeypatch.delenv("LUCID_TRUST")
    Signing.of_environment().key_store.create()
    publish_release(tracking_uri=shop.uri, cluster="small", version=shop.approved(1))
    command = ("lucid", "live", "rank", "--queue", str(queue), "--json")
    without = live.run(*command, cwd=tmp_path, LUCID_TRACKING_URI=shop.uri)
    assert "There is no trust file" in without.stdout
    trust = str(tmp_path / "publisher" / "trust.json")
    done = live.run(*command, cwd=tmp_path, LUCID_TRACKING_URI=shop.uri, LUCID_TRUST=trust)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert [job["job_id"] for job in answer["jobs"]] == ["short", "long"]
    assert "fallback" not in str(answer["release"])


@installs
@pytest.mark.slow
def test_the_extra_live_has_the_live_scheduler(live: Installation, tmp_path: Path) -> None:
    code = "import live_scheduler.assembly, live_scheduler.service.standalone, live_scheduler.service.web;"
    code += "from live_scheduler.adapters import *; [adapter_kind(n).open for n in adapter_names()]"
    done = live.run("python", "-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@installs
def test_a_command_of_another_extra_says_which(live: Installation, tmp_path: Path) -> None:
    done = live.run("lucid", "release", "list", cwd=tmp_path, LUCID_TRACKING_URI="http://127.0.0.1:1")
    assert done.returncode == 1
    assert "pip install '.[training]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_other_errors_are_left_alone() -> None:
    assert missing_extra(ModuleNotFoundError("no", name="one_of_nobody")) is None
    assert missing_extra(ValueError("no")) is None


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_every_package_ships_its_types(package: Path) -> None:
    assert (package / "py.typed").exists()
