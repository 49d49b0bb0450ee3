"""Lucid's profiler on a live Slurm: new small jobs run for a moment where they are measured (section 3.2)."""
