"""What this part adds."""

from foundation.parts import Part

PART = Part(
    "live_profiling",
    "Lucid's profiler on a live Slurm (section 3.2)",
    live="parts.live_profiling.live:LIVE",
)
