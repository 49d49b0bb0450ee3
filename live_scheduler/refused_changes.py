"""What the cluster refused lately: it must not use up what may be asked for, and is told once."""

from collections.abc import Container, Sequence

from live_scheduler.adapter import Change, Refusal


class RefusedChanges:
    """The jobs of which changes were refused, until one is made or the job is gone."""

    def __init__(self) -> None:
        """Nothing was refused yet."""
        self._kinds: dict[str, set[str]] = {}

    def __contains__(self, change: Change) -> bool:
        """Return whether something was refused of the change's job."""
        return change.job_id in self._kinds

    def note(self, asked: Sequence[Change], refused: Sequence[Refusal], jobs: Container[str]) -> str:
        """Learn what became of changes; return what is new about it for people, "" when nothing is."""
        before = {job_id: kinds for job_id, kinds in self._kinds.items() if job_id in jobs}
        asked_of = {change.job_id for change in asked}
        self._kinds = {job_id: set(kinds) for job_id, kinds in before.items() if job_id not in asked_of}
        new: list[Refusal] = []
        for refusal in refused:
            if refusal.unreached:
                continue
            job_id, kind = refusal.change.job_id, type(refusal.change).__name__
            self._kinds.setdefault(job_id, set()).add(kind)
            if kind not in before.get(job_id, ()):
                new.append(refusal)
        if not new:
            return ""
        others = f" (and {len(new) - 1} more changes)" if len(new) > 1 else ""
        first = new[0].change
        return f"refused: {type(first).__name__} of job {first.job_id}{others}: {new[0].why}"
