"""What a pair of jobs on one set of GPUs is expected to cost, and whether that is worth the GPUs it saves.

While two jobs share their GPUs at speeds a and b, every second costs them (1 - a) + (1 - b) job-seconds, and
saves the GPUs that one of them would hold alone. How long they share them cancels out of the ratio, so a pair
is judged by one figure: job-seconds lost per GPU-second saved.
"""

from collections import deque
from collections.abc import Mapping

from simulator.job_view import JobView, RunState
from simulator.workload.colocation import ColocationModel, SummedUtilisation

# A pair is watched for this long before its speeds are taken for the pair's (Lucid's T_prof on Philly).
WATCH_S = 80.0


class PairGain:
    """Expected loss of pairs: as seen on this cluster, else as `speeds` predicts from their profiles.

    What the policy saw of a pair of templates that shared GPUs for a while replaces the prediction, unless
    `learns` is off; a measured table (`MeasuredPairs`) makes good predictions from the first pair on.
    """

    def __init__(self, speeds: ColocationModel | None = None, *, learns: bool = True) -> None:
        self._speeds = speeds or SummedUtilisation()
        self._learns = learns
        self._known: dict[str, dict[str, float]] = {}
        self._lost_together: dict[str, float] = {}  # by template: the sum of its row
        # What a template loses with the others on average (job-seconds a second); missing: nothing known. The
        # lower, the more sought-after it is as a partner.
        self.mean_losses: dict[str, float] = {}
        self._watched: deque[tuple[float, JobView, JobView]] = deque()

    def known(self, job: JobView) -> Mapping[str, float]:
        """Return what is known of a job's template with others, by template; ask `loss` for the rest."""
        return self._known.get(job.job.template or "", {})

    def loss(self, job: JobView, other: JobView) -> float:
        """Return the expected job-seconds lost in a second of sharing, in [0, 2]."""
        mine, theirs = job.job.template, other.job.template
        if mine is None or theirs is None:
            return self._predict(job, other)
        row = self._known.setdefault(mine, {})
        loss = row.get(theirs)
        if loss is None:
            loss = self._predict(job, other)
            self._note(mine, theirs, loss)
        return loss

    def _note(self, mine: str, theirs: str, loss: float) -> None:
        for one, other in {(mine, theirs): None, (theirs, mine): None}:
            row = self._known.setdefault(one, {})
            self._lost_together[one] = self._lost_together.get(one, 0.0) + loss - row.get(other, 0.0)
            row[other] = loss
            self.mean_losses[one] = self._lost_together[one] / len(row)

    def _predict(self, job: JobView, other: JobView) -> float:
        return _lost(*self._speeds.speeds(job.profile, other.profile))

    def watch(self, job: JobView, partner: JobView, now_s: float) -> None:
        """Remember a pair that starts to share GPUs now, to look at its speeds later."""
        if self._learns:
            self._watched.append((now_s + WATCH_S, job, partner))

    def look(self, now_s: float) -> None:
        """Take down the speeds of the pairs that have shared their GPUs for long enough."""
        watched = self._watched
        while watched and watched[0][0] <= now_s:
            _, job, partner = watched.popleft()
            if job.partner is not partner or job.state is not RunState.RUNNING:
                continue  # one of them has ended meanwhile
            mine, theirs = job.job.template, partner.job.template
            if mine is not None and theirs is not None and not (job.unstable or partner.unstable):
                self._note(mine, theirs, _lost(job.speed, partner.speed))


def _lost(mine: float, theirs: float) -> float:
    """No job is taken to run faster beside another than alone."""
    return max(0.0, 1.0 - mine) + max(0.0, 1.0 - theirs)
