"""The groups of jobs that share a risk."""

GPU_JOBS, CPU_JOBS = "GPU jobs", "CPU jobs"
