"""The wheel on every Python that is here: the light client, and the live scheduler with its tests.

    python -m tests.pythons [--write PAGE] [PYTHON ...]     # make test-pythons

For each `python3.N` that is on PATH, among pyenv's, or named: new environments from
requirements-pythons.lock, in which the client alone pulls, verifies and scores a release of a real MLflow,
and the live scheduler's tests run outside of the checkout. The newest Python runs all of them, the others
those of the tier quick. Exit code 1 where something failed, or where a client scored otherwise than another.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from experiments.pages import publish
from tests.fixtures import (
    MlflowServer,
    ReleaseShop,
    register_small_models,
    save_small_models,
    saved_small_models,
)
from tests.wheels import build_wheel

ROOT = Path(__file__).parents[1]
MINORS = (11, 12, 13, 14)
TRIED = "tried"
# What needs more than the extra `live` on purpose: a registry, the lake, or models that are trained for it.
LEFT_OUT = (
    "test_forged_releases.py",
    "test_known_needs.py",
    "test_publication_reaches_daemon.py",
    "test_release_client.py",
    "test_sharing_beliefs.py",
    "test_signed_publications.py",
    "waits/test_wait_answers.py",
)
SIGHT = "import json, platform, sys; print(json.dumps([*sys.version_info[:2], platform.python_version()]))"
CLIENT = """
import json, sys
from pathlib import Path
from live_scheduler.client import ReleaseClient
from live_scheduler.ranking import rank_queue
queue = [
    {"job_id": str(at), "user": f"u{at % 6}", "gpus": 1 + at % 4, "submit_time": 1585730000 + at,
     "virtual_cluster": "vc", "name": f"train_u{at % 6}"}
    for at in range(40)
]
url, folder = sys.argv[1], Path(sys.argv[2])
pulled = ReleaseClient(url, "champion", folder, cluster="small", trust="unsigned").poll()
kept = ReleaseClient("http://127.0.0.1:9", "champion", folder, cluster="small", trust="unsigned").current
ranked = rank_queue(queue, pulled)
print(json.dumps([pulled.version, [[job.job_id, job.estimated_duration_s] for job in ranked]]))
assert not {"pandas", "pydantic", "yaml"} & set(sys.modules)
"""


@dataclass(frozen=True)
class Python:
    """An interpreter that was found, and its version in full."""

    path: Path
    minor: int
    version: str


@dataclass(frozen=True)
class Tried:
    """What one Python did: the client's answer, or what it said instead; pytest's last line and exit code."""

    python: Python
    numpy: str
    client: Any
    said: str
    tests: str
    passed: bool


def find_pythons(named: Sequence[Path] = ()) -> list[Python]:
    """The first working interpreter of each version: those named, on PATH, and pyenv's."""
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    wanted = [f"python3.{minor}" for minor in MINORS]
    places = [
        *named,
        *(folder / name for name in wanted for folder in folders),
        *(path for name in wanted for path in sorted(pyenv.glob(f"*/bin/{name}"), reverse=True)),
    ]
    found: dict[int, Python] = {}
    for path in places:
        python = _look_at(path) if path.exists() else None
        if python is not None and python.minor in MINORS:
            found.setdefault(python.minor, python)
    return [found[minor] for minor in sorted(found)]


def _look_at(path: Path) -> Python | None:
    done = subprocess.run([path, "-c", SIGHT], capture_output=True, text=True, timeout=60)
    if done.returncode:  # a shim of pyenv without a version behind it
        return None
    major, minor, version = json.loads(done.stdout)
    return Python(path.absolute(), minor, version) if major == 3 else None


class Bench:
    """What all Pythons are tried with: a wheel, saved models, a release on a server, and the tests' tree."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.wheel = build_wheel(ROOT, folder / "wheels")
        self.models = folder / "models"
        self.models.mkdir()
        save_small_models(self.models)
        files = saved_small_models(self.models)
        self.tree = folder / "tree"
        self.tree.mkdir()
        shutil.copytree(ROOT / "tests", self.tree / "tests", ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "conftest.py", "CONTRIBUTING.md"):
            shutil.copyfile(ROOT / name, self.tree / name)
        server_folder = folder / "mlflow"
        server_folder.mkdir()
        self.server = MlflowServer(server_folder)
        self.server.start()
        try:
            self._publish(files)
        except BaseException:
            self.server.stop()
            raise

    def _publish(self, files: dict[str, list[Path]]) -> None:
        from lucid_models.releases.lifecycle import publish_release

        register_small_models(self.server.uri, files)
        version = ReleaseShop(self.server, files).approved(1)
        publish_release(tracking_uri=self.server.uri, cluster="small", version=version)

    def try_on(self, python: Python, *, slow: bool) -> Tried:
        """Install and run both parts, each in an environment of its own."""
        client = self._environment(python, "client")
        state = self.folder / f"releases-{python.minor}"
        answer = self._run(client, "-c", CLIENT, self.server.uri, state)
        live = self._environment(python, "live", "[live]", "--group", f"{ROOT / 'pyproject.toml'}:pythons")
        left_out = [f"--ignore=tests/live_scheduler/{name}" for name in LEFT_OUT]
        tests = self._run(
            live, "-m", "pytest", "-q", "-n", "2" if slow else "0", "-p", "no:cacheprovider",
            "tests/live_scheduler", *left_out, *(() if slow else ("--tier", "quick")),
        )  # fmt: skip
        numpy = self._run(client, "-c", "import numpy; print(numpy.__version__)").stdout.strip()
        last = re.sub(r" in [\d.]+s.*", "", (tests.stdout.strip().splitlines() or [""])[-1]).strip("= ")
        said = "".join(done.stdout + done.stderr for done in (answer, tests) if done.returncode)
        scored = json.loads(answer.stdout.splitlines()[-1]) if answer.returncode == 0 else None
        passed = answer.returncode == 0 and tests.returncode == 0
        return Tried(
            python, numpy, scored, said, last if slow else f"{last} (those of the tier quick)", passed
        )

    def _environment(self, python: Python, name: str, extra: str = "", *more: str) -> Path:
        folder = self.folder / f"{name}-{python.minor}"
        made = folder / "bin" / "python"
        uv = Path(sys.executable).parent / "uv"
        subprocess.run([python.path, "-m", "venv", "--without-pip", folder], check=True)
        lock = ROOT / "requirements-pythons.lock"  # uv checks the hashes of constraints, too
        install = [uv, "pip", "install", "--quiet", "--python", made, "--constraint", lock]
        subprocess.run([*install, f"{self.wheel}{extra}", *more], check=True)
        return made

    def _run(self, python: Path, *command: str | Path) -> "subprocess.CompletedProcess[str]":
        # Compiled once, not by each process that a test starts.
        unset = {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE"}
        environment = {name: value for name, value in os.environ.items() if name not in unset}
        environment |= {"LUCID_SMALL_MODELS": str(self.models)}
        return subprocess.run(
            [python, *command], cwd=self.tree, env=environment, capture_output=True, text=True, timeout=1_800
        )


def same_scores(tried: Sequence[Tried]) -> bool:
    """Whether all clients put the queue in one order, with estimates alike to a millionth."""
    answers = [each.client for each in tried if each.client is not None]
    return all(_alike(answers[0], other) for other in answers[1:])


def _alike(one: Any, other: Any) -> bool:
    pairs = list(zip(one[1], other[1], strict=True))
    return one[0] == other[0] and all(a[0] == b[0] and abs(a[1] - b[1]) <= 1e-6 * abs(a[1]) for a, b in pairs)


def table_of(tried: Iterable[Tried], missing: Iterable[int]) -> str:
    """The result as a table in Markdown, with when it was."""
    rows = [
        f"| {each.python.version} | {each.numpy} | "
        f"{'pulled, verified, scored' if each.client is not None else 'FAILED'} | {each.tests} |"
        for each in tried
    ]
    rows += [f"| 3.{minor} | | not found on PATH or among pyenv's | |" for minor in missing]
    return "\n".join(
        [
            "| Python | NumPy | the client alone | tests of the live scheduler |",
            "| --- | --- | --- | --- |",
            *rows,
            "",
            f"Written by `python -m tests.pythons --write docs/live_slurm.md`, {datetime.now(UTC):%Y-%m-%d}.",
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("pythons", nargs="*", type=Path, metavar="PYTHON", help="before those found")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the table into a page")
    asked = parser.parse_args()
    pythons = find_pythons(asked.pythons)
    missing = [minor for minor in MINORS if minor not in {python.minor for python in pythons}]
    tried: list[Tried] = []
    with tempfile.TemporaryDirectory(prefix="lucid-pythons-") as folder:
        bench = Bench(Path(folder))
        try:
            for python in pythons:
                tried.append(bench.try_on(python, slow=python is pythons[-1]))
                print(f"Python {python.version} ({python.path}): {tried[-1].tests}", flush=True)
                if not tried[-1].passed:
                    print(tried[-1].said[-6_000:], file=sys.stderr)
        finally:
            bench.server.stop()
    table = table_of(tried, missing)
    publish({TRIED: table}, asked.write)
    if not same_scores(tried):
        print("The clients' scores differ from one Python to another.", file=sys.stderr)
        return 1
    return 0 if tried and all(each.passed for each in tried) else 1


if __name__ == "__main__":
    sys.exit(main())
