"""What a driver tells of a GPU before anything is measured: `python3 -m profiler_jobs.gpu_check --device 0`.

Samples the GPU for some seconds as a measurement would, and says from where utilisation comes, how often, and
whether its times rise; what is held back in a container or a virtual machine shows here.
"""

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise
from statistics import median
from typing import Any

from foundation.errors import BadInputError, LucidError
from foundation.exit_codes import CommandLine
from profiler_jobs.devices.nvidia import NvidiaTelemetry, open_nvidia
from profiler_jobs.devices.nvidia_samples import Sample


def check_gpu(index_or_uuid: str, *, seconds: float) -> dict[str, Any]:
    """Sample one GPU for so long and return what was seen, as a document.

    Raises what `open_nvidia` raises, and ServiceUnavailableError when the driver reported nothing then.
    """
    telemetry = open_nvidia(index_or_uuid)
    try:
        telemetry.start()
        begin_s = time.monotonic()
        time.sleep(seconds)
        reading = telemetry.window(begin_s, begin_s + seconds)
        return {
            "device": asdict(telemetry.describe()),
            "seconds": seconds,
            "seen": asdict(reading),
            "utilisation_source": telemetry.utilisation_source,
            "samples": _about(telemetry, memory=False),
            "memory_samples": _about(telemetry, memory=True),
            "processes": list(telemetry.process_ids()),
        }
    finally:
        telemetry.stop()


def _about(telemetry: NvidiaTelemetry, *, memory: bool) -> dict[str, Any]:
    """Return how many samples the driver gave, how far apart, and whether their times rise strictly."""
    samples: Sequence[Sample] = telemetry.samples(memory=memory)
    gaps = [later.time_s - earlier.time_s for earlier, later in pairwise(samples)]
    return {
        "count": len(samples),
        "clock": telemetry.sample_clock(memory=memory) if samples else None,
        "period_s": round(median(gaps), 6) if gaps else None,
        "longest_gap_s": round(max(gaps), 6) if gaps else None,
        "times_rise": all(gap > 0 for gap in gaps),
    }


def lines(document: dict[str, Any]) -> list[str]:
    """Return the document in words, a line a fact."""
    device, seen, samples = document["device"], document["seen"], document["samples"]
    mig = {None: "no MIG", False: "MIG off", True: "MIG on"}[device["mig"]]
    power = "" if seen["power_w"] is None else f", {seen['power_w']:.1f} W"
    counter = "" if seen["energy_j"] is None else " by the energy counter"
    clock = "" if seen["sm_clock_mhz"] is None else f", {seen['sm_clock_mhz']:.0f} MHz"
    name = f"{device['name']} ({device['uuid']}), {device['memory_mib']:,.0f} MiB"
    means = f"GPU {seen['gpu_util_pct']:.1f} %, memory {seen['gpu_mem_util_pct']:.1f} %"
    sentences = [
        f"{name}, driver {device['driver']}, {mig}, {device['sharing_mode']}",
        f"{document['seconds']:g} s: {means}, {seen['gpu_mem_mib']:,.0f} MiB in use{power}{counter}{clock}",
        f"Clocks held back by: {', '.join(seen['throttle_reasons']) or 'nothing'}",
        f"Utilisation from {document['utilisation_source']}, {seen['samples']} in the window",
    ]
    if samples["count"]:
        rise = "rise strictly" if samples["times_rise"] else "DO NOT RISE"
        sentences.append(
            f"The driver's samples: {samples['count']}, one every {samples['period_s']} s, at most "
            f"{samples['longest_gap_s']} s apart, stamped by the {samples['clock']} clock; their times {rise}"
        )
    else:
        sentences.append("The driver gave no samples (an idle GPU's ring runs dry on some products).")
    return sentences


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the check; an error is one line on standard error and exit code 1."""
    parser = CommandLine(prog="python3 -m profiler_jobs.gpu_check", description=__doc__)
    parser.add_argument("--device", default="0", help="number as nvidia-smi counts them, or UUID (default 0)")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long to sample (default 5)")
    parser.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
    options = parser.parse_args(arguments)
    try:
        if not 0.5 <= options.seconds <= 600.0:
            raise BadInputError(f"--seconds is {options.seconds:g}.", remedy="Give 0.5 to 600.")
        document = check_gpu(options.device, seconds=options.seconds)
    except LucidError as error:
        sys.stderr.write(f"Error: {error}\n")
        return 1
    text = json.dumps(document, indent=2) if options.json else "\n".join(lines(document))
    sys.stdout.write(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
