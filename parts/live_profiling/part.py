"""What this part adds to the core; what each field means says `foundation.parts.Part`."""

from foundation.parts import Part

PART = Part(
    "live_profiling",
    "Lucid's profiler on a live Slurm (section 3.2)",
    live="parts.live_profiling.live:LIVE",
)
