"""Who asks for a limit, and which jobs share a risk."""

GPU_JOBS, CPU_JOBS = "GPU jobs", "CPU jobs"
# Who asks, by the first of these that a log tells.
OWNERS = ("user", "account", "group")
