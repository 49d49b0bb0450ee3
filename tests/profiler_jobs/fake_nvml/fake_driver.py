"""Compiles the fake driver, and runs programs that load it in place of NVIDIA's."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).with_name("fake_nvml.c")
ROOT = Path(__file__).parents[3]

# A card that answers everything; a test adds lines or replaces them.
CARD = """\
driver 580.65.06
device
name NVIDIA H200
uuid GPU-11111111-2222-3333-4444-555555555555
memory 143771 620 0
mig 0
mode 0
energy_mw 350000
clocks 1980 3201
reasons 0x1
util 37 11
ring gpu 20000 12 wall 1 80
ring memory 20000 12 wall 1 30
"""

RunWithDriver = Callable[..., Any]


def compile_driver(folder: Path) -> Path:
    """Return the folder with the library; skips the test where there is no compiler for C."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler to build the fake driver with")
    library = folder / "libnvidia-ml.so.1"
    command = [compiler, "-std=gnu11", "-O1", "-shared", "-fPIC", "-o", str(library), str(SOURCE)]
    subprocess.run(command, check=True)
    return folder


def driver_environment(library: Path, state: Path, **extra: str) -> dict[str, str]:
    """Return the environment in which the fake is the machine's driver."""
    hidden = {"CUDA_VISIBLE_DEVICES", "CUDA_MPS_PIPE_DIRECTORY", "LD_PRELOAD", "SLURM_JOB_ID"}
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    return (
        environment
        | {
            "LD_LIBRARY_PATH": str(library),
            "FAKE_NVML_STATE": str(state),
            "PYTHONPATH": str(ROOT),
            "CUDA_MPS_PIPE_DIRECTORY": str(state.parent / "no-mps"),
        }
        | extra
    )


def run_program(program: str, environment: dict[str, str]) -> Any:
    """Run a Python program and return what it prints as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
