"""What the changing GPUs of an elastic job amount to, on a cluster with nodes."""


class ElasticRun:
    """An elastic job's books beside its view: what a rigid job has no need of.

    GPU time is kept as what it was *spared*: its full demand for as long as it ran, less what it held. While
    it pauses (it was resized, or resumes after a preemption) it holds its GPUs and makes no progress.
    """

    __slots__ = ("pause_s", "resizes", "spared_gpu_s", "spared_lost_gpu_s", "spared_overhead_gpu_s")

    def __init__(self) -> None:
        self.pause_s = 0.0  # still to pass before it makes progress, as of `JobView.run_since_s`
        self.resizes = 0  # times that its GPUs changed while it ran
        self.spared_gpu_s = 0.0  # as of `JobView.run_since_s`
        self.spared_overhead_gpu_s = 0.0  # of that, in pauses
        self.spared_lost_gpu_s = 0.0  # of that, in runs that were thrown away

    def copy(self) -> "ElasticRun":
        """Return a copy."""
        other = ElasticRun.__new__(ElasticRun)
        for name in ElasticRun.__slots__:
            setattr(other, name, getattr(self, name))
        return other

    def paused_of(self, elapsed_s: float) -> float:
        """Return how much of the time since the last settlement was pause (s)."""
        return min(self.pause_s, elapsed_s)

    def pass_time(self, elapsed_s: float, spared_gpus: int) -> float:
        """Count time in which it held so many GPUs less than it could use; return the pause in it (s)."""
        paused_s = min(self.pause_s, elapsed_s)
        self.pause_s -= paused_s
        self.spared_gpu_s += spared_gpus * elapsed_s
        self.spared_overhead_gpu_s += spared_gpus * paused_s
        return paused_s

    def pause(self, cost_s: float) -> None:
        """Hold it up for so long from now on; a pause that is not over begins anew, and is not added."""
        self.pause_s = max(self.pause_s, cost_s)

    def lose_progress(self) -> None:
        """All that it held GPUs for is lost, pauses included."""
        self.pause_s = 0.0
        self.spared_lost_gpu_s = self.spared_gpu_s
        self.spared_overhead_gpu_s = 0.0
