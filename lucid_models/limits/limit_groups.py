"""The columns that name a job's owner, and the groups of jobs that share a risk."""

GPU_JOBS, CPU_JOBS = "GPU jobs", "CPU jobs"
# The first of these columns that a log has names the owner.
OWNERS = ("user", "account", "group")
