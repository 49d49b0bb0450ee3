"""What the processor's telemetry says of real processes."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from profiler_jobs.devices.device import DeviceKind, SharingMode
from profiler_jobs.devices.host_cpu import HostCpu

SPIN = "print(flush=True)\nwhile True: pass"
HOLD = "import time\nheld = bytearray(200 * 2**20)\nprint(flush=True)\ntime.sleep(600)"


@pytest.fixture
def start_process():
    started = []

    def start(program):
        process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
        started.append(process)
        process.stdout.readline()
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def telemetry():
    source = HostCpu()
    source.start()
    yield source
    source.stop()


def _cpu_s(process):
    account = Path(f"/proc/{process.pid}/schedstat")  # the scheduler's own, in nanoseconds
    if not account.exists():
        pytest.skip("this kernel keeps no second account of processor time")
    return int(account.read_text().split()[0]) / 1e9


def _observe(telemetry, seconds=0.6):
    begin_s = time.monotonic()
    time.sleep(seconds)
    end_s = time.monotonic()
    return telemetry.window(begin_s, end_s), end_s - begin_s


def test_it_describes_the_processor_and_knows_no_gpu():
    description = HostCpu().describe()
    assert description.kind is DeviceKind.CPU
    assert description.sharing_mode is SharingMode.PROCESSOR
    assert description.name.endswith(f"{len(os.sched_getaffinity(0))} cores")
    assert description.memory_mib > 100.0
    assert description.uuid is None
    assert description.mig is None


def test_utilisation_is_the_processes_share_of_the_cores(telemetry, start_process):
    spinning = start_process(SPIN)
    telemetry.watch([spinning.pid])
    time.sleep(0.2)
    before_s = _cpu_s(spinning)
    seen, took_s = _observe(telemetry)
    took_cpu_s = _cpu_s(spinning) - before_s
    expected_pct = 100.0 * took_cpu_s / took_s / len(os.sched_getaffinity(0))
    assert seen.gpu_util_pct == pytest.approx(expected_pct, abs=15.0)
    assert 0.0 < seen.gpu_util_pct < 100.0 / len(os.sched_getaffinity(0)) + 15.0
    assert seen.samples >= 1
    assert seen.gpu_mem_util_pct != seen.gpu_mem_util_pct, "not known"
    assert seen.power_w is None
    assert seen.energy_j is None


def test_processes_that_wait_use_nothing_and_hold_their_memory(telemetry, start_process):
    holding = [start_process(HOLD), start_process(HOLD)]
    telemetry.watch([process.pid for process in holding])
    seen, _ = _observe(telemetry)
    assert seen.gpu_util_pct < 20.0
    assert 400.0 < seen.gpu_mem_mib < 800.0


def test_only_the_watched_that_live_hold_the_device(telemetry, start_process):
    holding = start_process(HOLD)
    assert telemetry.process_ids() == ()
    telemetry.watch([holding.pid])
    assert telemetry.process_ids() == (holding.pid,)
    holding.kill()
    holding.wait()
    assert telemetry.process_ids() == ()
