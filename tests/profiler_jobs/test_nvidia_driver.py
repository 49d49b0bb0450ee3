"""The real nvidia-ml-py against a driver that is compiled from `fake_nvml/fake_nvml.c`."""

import json
import os
import subprocess
import sys
import textwrap
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.profiler_jobs.fake_nvml.fake_driver import (
    CARD,
    compile_driver,
    driver_environment,
    run_program,
)

UUID = "GPU-11111111-2222-3333-4444-555555555555"
TWO_CARDS = CARD + CARD.split("\n", 1)[1].replace("1111", "2222").replace("NVIDIA H200", "NVIDIA L4")


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_driver(tmp_path_factory.mktemp("driver"))


class Machine:
    """A machine whose driver is the fake."""

    def __init__(self, library: Path, folder: Path) -> None:
        self.library = library
        self.state = folder / "state"

    def run(self, program: str, state: str = CARD, **environment: str) -> Any:
        """Run a program on it that leaves what it found in `found`."""
        self.state.write_text(state)
        head = (
            "import dataclasses, json, os, sys, time\nfrom pathlib import Path\n"
            "from profiler_jobs.devices.nvidia import NvidiaTelemetry, open_nvidia\n"
            "state = Path(os.environ['FAKE_NVML_STATE'])\n"
            "def plain(each):\n"
            "    return dataclasses.asdict(each) if dataclasses.is_dataclass(each) else str(each)\n"
            "def put(text):\n"
            "    state.with_suffix('.new').write_text(text)\n"
            "    state.with_suffix('.new').replace(state)\n"
        )
        tail = "\nprint(json.dumps(found, default=plain))\n"
        said = driver_environment(self.library, self.state, **environment)
        return run_program(head + textwrap.dedent(program) + tail, said)

    def refusal(self, call: str, state: str = CARD, **environment: str) -> tuple[str, str]:
        """Return the kind and the text of the error that a call ends with."""
        program = (
            f"try:\n    {call}\n    found = ('nothing', '')\n"
            "except Exception as error:\n    found = (type(error).__name__, str(error))"
        )
        kind, text = self.run(program, state, **environment)
        return kind, text


@pytest.fixture
def machine(driver: Path, tmp_path: Path) -> Machine:
    return Machine(driver, tmp_path)


def replaced(*lines: str) -> str:
    """Return the card with lines of the same first words replaced, or added."""
    said = CARD.splitlines()
    for line in lines:
        words = 2 if line.startswith(("ring", "fail", "process")) else 1
        key = line.split()[:words]
        said = [each for each in said if each.split()[:words] != key] + [line]
    return "\n".join(said) + "\n"


def test_a_card_knows_its_place_among_all_of_the_machine(machine: Machine) -> None:
    program = "found = [NvidiaTelemetry(index).position for index in (0, 1)]"
    assert machine.run(program, TWO_CARDS) == [[0, 2], [1, 2]]
    alone = machine.run("found = NvidiaTelemetry(0).position", TWO_CARDS, CUDA_VISIBLE_DEVICES="1")
    assert alone == [1, 2], "whatever is hidden from this process: others may measure on it"


def test_a_card_is_described_as_the_driver_says(machine: Machine) -> None:
    found = machine.run("found = open_nvidia(0).describe()")
    assert found == {
        "name": "NVIDIA H200",
        "kind": "gpu",
        "memory_mib": 143771.0,
        "sharing_mode": "time-slicing",
        "uuid": UUID,
        "driver": "580.65.06",
        "mig": False,
    }


def test_a_card_without_mig_says_so(machine: Machine) -> None:
    assert machine.run("found = open_nvidia('0').describe()", replaced("mig -1"))["mig"] is None


@pytest.mark.parametrize(
    ("wanted", "visible", "name"),
    [
        (0, None, "NVIDIA H200"),
        (1, None, "NVIDIA L4"),
        ("GPU-2222", None, "NVIDIA L4"),
        (0, "1", "NVIDIA L4"),
        (1, "1,0", "NVIDIA H200"),
        (0, "GPU-2222", "NVIDIA L4"),
    ],
)
def test_a_card_is_found_among_those_that_cuda_would_show(
    machine: Machine, wanted: int | str, visible: str | None, name: str
) -> None:
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    found = machine.run(f"found = open_nvidia({wanted!r}).describe()", TWO_CARDS, **environment)
    assert found["name"] == name


def test_cuda_counts_nothing_from_the_first_bad_entry_on(machine: Machine) -> None:
    visible = {"CUDA_VISIBLE_DEVICES": "1,7,0"}
    assert machine.run("found = open_nvidia(0).describe()", TWO_CARDS, **visible)["name"] == "NVIDIA L4"
    kind, text = machine.refusal("open_nvidia(1)", TWO_CARDS, **visible)
    assert kind == "NotFoundError"
    assert "NVIDIA L4" in text
    assert "NVIDIA H200" not in text


def test_an_unknown_card_is_refused_with_those_that_are_there(machine: Machine) -> None:
    kind, text = machine.refusal("open_nvidia(3)")
    assert kind == "NotFoundError"
    assert text == f"There is no GPU '3' here. Choose one of: 0: NVIDIA H200 ({UUID})."


def test_without_the_drivers_library_there_is_one_line(tmp_path: Path) -> None:
    kind, text = Machine(tmp_path, tmp_path).refusal("open_nvidia(0)")
    assert kind == "ServiceUnavailableError"
    assert text == (
        "No NVIDIA GPU: the driver's library libnvidia-ml.so.1 is not on this machine. "
        "Use --device simulated."
    )


@pytest.mark.parametrize(
    ("state", "environment", "why"),
    [
        ("init_error 9\n", {}, "its driver is not loaded"),
        ("init_error 18\n", {}, "library and driver are of different versions (reboot?)"),
        ("init_error 4\n", {}, "the driver's devices /dev/nvidia* may not be read"),
        ("driver 580.1\n", {}, "the driver shows this process none"),
        (
            CARD,
            {"CUDA_VISIBLE_DEVICES": ""},
            "the driver shows this process none (CUDA_VISIBLE_DEVICES is '')",
        ),
        (CARD + "fail nvmlDeviceGetHandleByIndex_v2 4\n", {}, "the driver shows this process none"),
    ],
)
def test_without_a_usable_gpu_there_is_one_line(
    machine: Machine, state: str, environment: dict[str, str], why: str
) -> None:
    assert machine.refusal("open_nvidia(0)", state, **environment) == (
        "ServiceUnavailableError",
        f"No NVIDIA GPU: {why}. Use --device simulated.",
    )


def test_mig_is_refused_and_left_as_it_is(machine: Machine) -> None:
    kind, text = machine.refusal("open_nvidia(0)", replaced("mig 1"))
    assert kind == "ServiceUnavailableError"
    assert "has MIG on, and the driver reports no utilisation under MIG" in text
    assert "we never do" in text
    assert "is a MIG instance" in machine.refusal("open_nvidia('MIG-12-34')")[1]


def test_other_processes_on_the_card_are_named(machine: Machine) -> None:
    mine = f"process {os.getpid()} 300 C elsewhere\n"
    kind, text = machine.refusal("open_nvidia(0)", CARD + mine + "process 4000001 500 C ollama\n")
    assert kind == "ServiceUnavailableError"
    assert f"is in use by processes {os.getpid()} (" in text
    assert "python) " in text or "pytest" in text or "python" in text
    assert "4000001 (ollama)" in text
    kind, text = machine.refusal("open_nvidia(0)", CARD + "process 4000002 -1 C\n")
    assert "is in use by process 4000002 (name not visible from here)" in text


def test_a_server_of_mps_alone_holds_the_card_for_nobody(machine: Machine) -> None:
    found = machine.run(
        "found = open_nvidia(0).process_ids()",
        CARD + "process 4000001 30 C /usr/bin/nvidia-cuda-mps-server\n",
    )
    assert found == []


def test_compute_modes_that_forbid_a_measurement_are_named(machine: Machine) -> None:
    assert "PROHIBITED" in machine.refusal("open_nvidia(0)", replaced("mode 2"))[1]
    assert machine.refusal("open_nvidia(0).watch([7])", replaced("mode 3")) == ("nothing", "")
    kind, text = machine.refusal("open_nvidia(0).watch([7, 8])", replaced("mode 3"))
    assert kind == "ServiceUnavailableError"
    assert "EXCLUSIVE_PROCESS: one process at a time, so no pairs. Start MPS" in text


def test_a_card_without_any_utilisation_is_refused(machine: Machine) -> None:
    withheld = CARD + "fail nvmlDeviceGetSamples 3\nfail nvmlDeviceGetUtilizationRates 3\n"
    kind, text = machine.refusal("open_nvidia(0)", withheld)
    assert kind == "ServiceUnavailableError"
    assert "reports no utilisation of NVIDIA H200" in text


# Sampled for a second: the ring turns over four times, its entries out of order and one of them unused.
MEASURE = """
telemetry = open_nvidia(0)
telemetry.start()
begin_s = time.monotonic()
time.sleep(1.0)
end_s = time.monotonic()
seen = telemetry.window(begin_s, end_s)
found = {
    "telemetry": seen,
    "window": [begin_s, end_s],
    "samples": [[each.time_s, each.value] for each in telemetry.samples()],
    "source": telemetry.utilisation_source,
    "mode": telemetry.describe().sharing_mode,
}
telemetry.stop()
found["mode afterwards"] = telemetry.describe().sharing_mode
"""


@pytest.mark.parametrize("clock", ["wall", "boot", "987654321000000000"])
def test_a_window_is_told_by_the_drivers_samples(machine: Machine, clock: str) -> None:
    processes = "process 4000001 1000 C python\n"
    state = replaced(
        f"ring gpu 20000 40 {clock} 1 80",
        f"ring memory 20000 40 {clock} 0 30",
        "reasons 0x25",
        "memory 143771 620 1100",
    )
    found = machine.run(
        "text = state.read_text()\n" + MEASURE.replace("begin_s =", f"put(text + {processes!r}); begin_s ="),
        state,
    )
    times = [time_s for time_s, _ in found["samples"]]
    assert all(earlier < later for earlier, later in pairwise(times))
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert all(gap > 0.01 for gap in gaps if clock in ("wall", "boot")), "no period of 20 ms is seen twice"
    assert {value for _, value in found["samples"]} == {80.0}
    seen = found["telemetry"]
    assert (seen["gpu_util_pct"], seen["gpu_mem_util_pct"]) == (80.0, 30.0)
    assert 1 < seen["samples"] <= len(times)
    assert seen["gpu_mem_mib"] == 1000.0
    assert (seen["sm_clock_mhz"], seen["mem_clock_mhz"]) == (1980.0, 3201.0)
    assert seen["throttle_reasons"] == ["sw_power_cap", "sw_thermal_slowdown"]
    assert seen["energy_j"] == pytest.approx(seen["power_w"] * (found["window"][1] - found["window"][0]))
    assert 100 < seen["power_w"] < 1_000, "350 W, give or take how late a busy machine reads the counter"
    assert found["source"] == "the driver's samples"
    assert found["mode"] == found["mode afterwards"] == "time-slicing"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("fail nvmlDeviceGetSamples 3", "not supported, as on a virtual GPU"),
        ("fail nvmlDeviceGetSamples 6", "not found: the ring ran dry"),
        ("fail nvmlDeviceGetSamples 999", "an error of its own, as in a sandbox"),
    ],
)
def test_without_samples_the_latest_value_is_polled_and_said(machine: Machine, lines: str, why: str) -> None:
    found = machine.run(MEASURE, CARD + lines + "\n")
    assert (found["telemetry"]["gpu_util_pct"], found["telemetry"]["gpu_mem_util_pct"]) == (37.0, 11.0), why
    assert found["telemetry"]["samples"] >= 1
    assert found["source"] == "polls of the latest value"
    assert found["samples"] == []


def test_a_driver_that_tells_little_leaves_the_rest_out(machine: Machine) -> None:
    little = CARD.replace("energy_mw 350000", "power_mw 71500") + "".join(
        f"fail {call} {code}\n"
        for call, code in [
            ("nvmlDeviceGetClockInfo", 3),
            ("nvmlDeviceGetCurrentClocksEventReasons", 13),
            ("nvmlDeviceGetCurrentClocksThrottleReasons", 13),
            ("nvmlDeviceGetMemoryInfo_v2", 13),
            ("nvmlDeviceGetComputeRunningProcesses_v3", 13),
            ("nvmlDeviceGetMPSComputeRunningProcesses_v3", 13),
        ]
    )
    seen = machine.run(MEASURE, little)["telemetry"]
    assert (seen["power_w"], seen["energy_j"]) == (71.5, None)
    assert (seen["sm_clock_mhz"], seen["mem_clock_mhz"], seen["throttle_reasons"]) == (None, None, [])
    assert seen["gpu_mem_mib"] == 620.0, "the first version counts what the driver reserves"


def test_memory_is_the_devices_where_that_of_a_process_is_not_told(machine: Machine) -> None:
    program = "text = state.read_text()\n" + MEASURE.replace(
        "begin_s =",
        "put(text.replace(' 620 0', ' 620 2048') + 'process 4000001 -1 C python\\n'); begin_s =",
    )
    assert machine.run(program)["telemetry"]["gpu_mem_mib"] == 2048.0


def test_mps_is_recognised_by_its_clients_while_they_hold_the_card(machine: Machine) -> None:
    server = "process 4000000 30 C nvidia-cuda-mps-server\n"
    clients = "process 4000001 700 M python\nprocess 4000002 800 M python\n"
    program = "text = state.read_text()\n" + MEASURE.replace(
        "begin_s =", f"put(text + {clients!r}); telemetry.watch([4000001, 4000002]); begin_s ="
    ).replace("telemetry.stop()", "put(text); telemetry.stop()")
    found = machine.run(
        program,
        replaced("mode 3", "memory 143771 620 1600", server.strip()),
        CUDA_MPS_PIPE_DIRECTORY=_pipes(machine),
    )
    assert found["mode"] == found["mode afterwards"] == "mps"
    assert found["telemetry"]["gpu_mem_mib"] == 1530.0


def _pipes(machine: Machine) -> str:
    folder = machine.state.parent / "pipes"
    folder.mkdir()
    (folder / "control").touch()
    return str(folder)


def test_a_server_beside_processes_that_do_not_use_it_is_no_mps(machine: Machine) -> None:
    program = "text = state.read_text()\n" + MEASURE.replace(
        "begin_s =", "put(text + 'process 4000001 700 C python\\n'); begin_s ="
    )
    found = machine.run(program, CARD + "process 4000000 30 C nvidia-cuda-mps-server\n")
    assert found["mode"] == "time-slicing"


def test_a_process_that_comes_during_a_run_spoils_the_window(machine: Machine) -> None:
    program = """
        telemetry = open_nvidia(0)
        telemetry.start()
        text = state.read_text() + "process 4000001 700 C python\\n"
        put(text)
        telemetry.watch([4000001])
        telemetry.window(time.monotonic() - 0.1, time.monotonic())
        put(text + "process 4000009 700 C intruder\\n")
        try:
            telemetry.window(time.monotonic() - 0.1, time.monotonic())
            found = "nothing"
        except Exception as error:
            found = str(error)
        telemetry.stop()
    """
    assert "is in use by process 4000009 (intruder)" in machine.run(program)


def test_a_run_does_not_begin_beside_others(machine: Machine) -> None:
    program = """
        telemetry = open_nvidia(0)
        put(state.read_text() + "process 4000009 700 C intruder\\n")
        import profiler_jobs.devices.nvidia as nvidia
        nvidia._RELEASE_S = 0.5
        try:
            telemetry.start()
            found = "nothing"
        except Exception as error:
            found = str(error)
        telemetry.stop()
    """
    assert "is in use by process 4000009 (intruder)" in machine.run(program)


def test_samples_that_fail_once_are_asked_for_again(machine: Machine) -> None:
    program = """
        telemetry = open_nvidia(0)
        text = state.read_text()
        telemetry.start()
        put(text + "fail nvmlDeviceGetSamples 10\\n")
        telemetry.poll()
        put(text)
        before = len(telemetry.samples())
        deadline = time.monotonic() + 300
        while len(telemetry.samples()) == before and time.monotonic() < deadline:
            time.sleep(0.05)
        found = len(telemetry.samples()) - before
        telemetry.stop()
    """
    assert machine.run(program) > 0


def test_a_gpu_that_falls_off_during_a_run_is_an_error_of_the_window(machine: Machine) -> None:
    program = """
        telemetry = open_nvidia(0)
        telemetry.start()
        put(state.read_text() + "fail nvmlDeviceGetTotalEnergyConsumption 15\\n")
        try:
            telemetry.window(time.monotonic(), time.monotonic() + 1.0)
            found = "nothing"
        except Exception as error:
            found = str(error)
        telemetry.stop()
        telemetry.stop()
    """
    assert machine.run(program).startswith("The GPU is gone: GPU is lost.")


def test_a_source_can_be_started_again_on_the_same_card(machine: Machine) -> None:
    program = """
        telemetry = open_nvidia(1)
        names = []
        for _ in range(2):
            telemetry.start()
            telemetry.start()
            time.sleep(0.3)
            names.append(telemetry.describe().name)
            samples = len(telemetry.samples())
            telemetry.stop()
            put(state.read_text().replace("device\\nname NVIDIA H200", "device\\nname GONE", 1))
        found = [names, samples > 0, telemetry.uuid]
    """
    names, sampled, uuid = machine.run(program, TWO_CARDS)
    assert names == ["NVIDIA L4", "NVIDIA L4"]
    assert sampled
    assert uuid.startswith("GPU-2222")


def _check(machine: Machine, state: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    machine.state.write_text(state)
    return subprocess.run(
        [sys.executable, "-m", "profiler_jobs.gpu_check", "--seconds", "0.5", *arguments],
        env=driver_environment(machine.library, machine.state),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.slow
def test_a_gpu_is_checked_before_anything_is_measured(machine: Machine) -> None:
    found = json.loads(_check(machine, CARD, "--json").stdout)
    assert found["device"]["uuid"] == UUID
    assert found["seen"]["gpu_util_pct"] == 80.0
    assert found["samples"]["clock"] == "wall"
    assert found["samples"]["times_rise"]
    assert found["samples"]["count"] > 1
    said = _check(machine, CARD + "fail nvmlDeviceGetSamples 3\n").stdout.splitlines()
    assert said[0] == f"NVIDIA H200 ({UUID}), 143,771 MiB, driver 580.65.06, MIG off, time-slicing"
    assert said[-2].startswith("Utilisation from polls of the latest value")
    assert said[-1].startswith("The driver gave no samples")


def test_a_check_that_cannot_be_made_is_one_line(machine: Machine) -> None:
    refused = _check(machine, "init_error 9\n")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == "Error: No NVIDIA GPU: its driver is not loaded. Use --device simulated.\n"


# Real workers on the host's processor under the fake driver's eyes, which lists those of them that live.
RUN_A_PAIR = """
import threading
from profiler_jobs.devices.device import DeviceKind, DeviceWindow
from profiler_jobs.devices.processes import ProcessDevice
from profiler_jobs.workloads import all_job_types

class OnTheHost(NvidiaTelemetry):
    def describe(self):
        return dataclasses.replace(super().describe(), kind=DeviceKind.CPU)

    def watch(self, process_ids):
        listing.extend(process_ids)
        listed.wait()
        super().watch(process_ids)

def list_the_living():
    said = None
    while not over.wait(0.02):
        living = [pid for pid in listing if os.path.exists(f"/proc/{pid}/cmdline")]
        living = [pid for pid in living if Path(f"/proc/{pid}/cmdline").read_bytes()]
        if said != living:
            put(text + "".join(f"process {pid} 400 M python\\n" for pid in living))
            said = living
        if living:
            listed.set()

listing, over, listed, text = [], threading.Event(), threading.Event(), state.read_text()
threading.Thread(target=list_the_living, daemon=True).start()
pair = [next(each for each in all_job_types() if each.name.startswith(model)) for model in ("NeuMF", "VGG")]
telemetry = OnTheHost(0)
with ProcessDevice(telemetry, catalogue="tiny_workloads", settle_s=0.05) as device:
    outcome = device.run(pair, [DeviceWindow((0,), 0.6), DeviceWindow((0, 1), 0.6)], warmup_s=0.0)
    found = {
        "outcome": outcome if isinstance(outcome, tuple) else str(outcome),
        "mode": device.description.sharing_mode,
        "left": telemetry.process_ids(),
    }
over.set()
"""


@pytest.mark.slow
@pytest.mark.thorough("PyTorch")
def test_real_workers_run_under_the_telemetry_and_leave_the_card(machine: Machine) -> None:
    if find_spec("torch") is None:
        pytest.skip("workers need PyTorch")
    paths = os.pathsep.join([str(Path(__file__).parents[2]), str(Path(__file__).parent)])
    found = machine.run(RUN_A_PAIR, replaced("memory 143771 620 900"), PYTHONPATH=paths)
    alone, together = found["outcome"]
    assert [speed is None for speed in alone["speeds"]] == [False, True]
    assert all(speed > 0 for speed in together["speeds"])
    # Memory is that of the processes that trained: the card tells what each of them holds.
    for record, held_mib in ((alone, 400.0), (together, 800.0)):
        assert record["telemetry"]["gpu_util_pct"] == 80.0
        assert record["telemetry"]["gpu_mem_mib"] == held_mib
        assert record["telemetry"]["memory_by_process"]
        assert record["telemetry"]["energy_j"] > 0
    assert found["mode"] == "mps"
    assert found["left"] == []
