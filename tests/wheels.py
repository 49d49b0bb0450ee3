"""A wheel of what is tracked, built as an installer builds it."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = (
    *("foundation", "cluster_logs", "profiler_jobs", "lucid_models", "simulator", "live_scheduler"),
    *("local_stack", "mlflow_access", "pipeline", "lucid_cli", "plugins/lucid_airflow", "parts"),
    "experiments",
)
BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"


def build_wheel(project: Path, wheels: Path) -> Path:
    """Build the wheel of the checkout, or of a project in it, from a copy; returns the wheel in `wheels`."""
    wheels.mkdir(parents=True, exist_ok=True)
    before = set(wheels.glob("*.whl"))
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder)
        for name in tracked():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, source / name)
        subprocess.run(
            [sys.executable, "-c", BUILD, wheels],
            cwd=source / project.relative_to(ROOT),
            check=True,
            capture_output=True,
            timeout=300,
        )
    (made,) = set(wheels.glob("*.whl")) - before
    return made


def build_image_wheels(wheels: Path) -> list[Path]:
    """Build what an image installs: the core and every part."""
    parts = sorted(path.parent for path in ROOT.glob("parts/*/pyproject.toml"))
    return [build_wheel(project, wheels) for project in (ROOT, *parts)]


def tracked() -> list[str]:
    """The files of all packages that git knows and that are there, as paths from the checkout."""
    done = subprocess.run(
        ["git", "ls-files", "pyproject.toml", "README.md", *PACKAGES],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [name for name in done.stdout.splitlines() if (ROOT / name).exists()]
