"""Lets the calibration of run times live through a log, so that each job's quantiles hold what was known.

What `RunTimeCalibration` does event by event is done here for a whole log, in three passes: who is in flight,
of which groups and weight (`flight_book`); what each group's jobs had shown by each submission, as running
sums (`residual_sums`); and the slow shift, job by job. Both lead to the same calibration, but for rounding.
"""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from lucid_models.duration.calibration import OWNER_PRIOR_JOBS, AwaitedJob, RunTimeCalibration
from lucid_models.duration.flight_book import ALL_JOBS, END, NEVER, NO_GROUP, START, SUBMISSION, FlightBook
from lucid_models.duration.job_replay import JobStream
from lucid_models.duration.lasting_misses import LastingMisses
from lucid_models.duration.residual_hazards import (
    EXPECTED,
    LEVELS,
    PRIOR_JOBS,
    SHAPE,
    hazards,
    quantiles_of_all,
)
from lucid_models.duration.residual_news import Name, ResidualNews
from lucid_models.duration.residual_sums import AFTER_LOOK, SUBMITTED, Asked, ResidualSums, turn
from lucid_models.duration.running_jobs import RunningJob

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]

_CLUSTERS, _OWNERS = 1, 2  # tiers


def offsets_at_submissions(
    calibration: RunTimeCalibration, stream: JobStream, said: Floats, *, until_s: float = np.inf
) -> tuple[Floats, RunTimeCalibration]:
    """Offsets of each job's quantiles at its submission, shape (jobs, levels), in a log that `calibration` is
    followed by, until `until_s`; and the calibration as it is then.

    `said`: quantiles of log run time without offsets, shape (jobs, levels); NaN for a job whose submission
    the calibration has seen: it only starts and ends (and its offsets are NaN). An event at the very moment
    of a submission is known to it.
    """
    book = FlightBook(calibration)
    names = list(zip(stream.virtual_clusters, stream.owners, strict=True))
    times, kinds, whose = _events(stream, said, until_s)
    book.live((times, kinds, whose), stream.job_ids, names, said.tolist(), stream.duration_s.tolist())
    told = _Told(book)
    after = told.calibration()
    after.lasting = LastingMisses(calibration.lasting.shifts)
    in_turn = [job.told for job in calibration.awaited.values()]
    told.follow_misses(after.lasting, in_turn)
    for job_id, flight in book.flights.items():
        job = AwaitedJob(*book.names[flight], tuple(book.said[flight]), in_turn[flight], book.weights[flight])
        after.await_end(job_id, job)
    offsets = np.full((len(stream.job_ids), len(LEVELS)), np.nan)
    offsets[[job for kind, job in zip(kinds, whose, strict=True) if kind == SUBMISSION]] = told.offsets
    return offsets, after


class _Told:
    """Offsets at the submissions of a book, shape (submissions, levels), and what is known in the end."""

    def __init__(self, book: FlightBook) -> None:
        self._book = book
        sums = ResidualSums(book)
        columns = list(zip(*book.submissions, strict=True)) or [()] * 7
        whole = (np.array(columns[at], dtype=np.intp) for at in (0, 1, 2, 3, 5))
        clocks, owner_clocks = (np.array(columns[at], dtype=np.float64) for at in (4, 6))
        events, changes, looks, clusters, owners = whole
        # What a crowd is told between two changes is worked out once.
        groups = len(book.clocks) + 1
        alike = (changes * groups + clusters + 1) * groups + owners + 1
        _, first, of_submission = np.unique(alike, return_index=True, return_inverse=True)
        events, looks, clusters, owners = (one[first] for one in (events, looks, clusters, owners))
        clocks, owner_clocks = clocks[first], owner_clocks[first]
        turns = turn(events, SUBMITTED)
        self._ended: dict[int, Floats] = {}
        self.usual = self._usual_hazards(sums)
        # A virtual cluster that is not known is told what all jobs are.
        self.offsets = _quantiles(self.usual)[looks]
        of_p50 = self.usual[looks, 0]
        known = Asked(clusters, turns, clocks)
        for rows, ended, passed in self._asked(sums, _CLUSTERS, known, book.clusters.values()):
            of_bins = hazards(ended, passed, self.usual[looks[rows]], PRIOR_JOBS)
            self.offsets[rows], of_p50[rows] = _quantiles(of_bins), of_bins[:, 0]
        known = Asked(owners, turns, owner_clocks)
        for rows, ended, passed in self._asked(sums, _OWNERS, known, book.owners.values()):
            of_bins = hazards(ended[:, :1], passed[:, :1], of_p50[rows, None], OWNER_PRIOR_JOBS)
            self.offsets[rows, 0] = quantiles_of_all(of_bins[:, 0], LEVELS[0])
        self.offsets = self.offsets[of_submission]

    def follow_misses(self, lasting: LastingMisses, told: list[tuple[float, ...]]) -> None:
        """Add the slow shifts to the offsets, and what each flight was told to `told`."""
        said, log_run, submissions = self._book.said, self._book.log_run, iter(self.offsets.tolist())
        shifts = []
        for one in self._book.turns:
            if one < 0:
                lasting.ended(told[~one], log_run[~one])
                continue
            p50, p90 = lasting.shifts
            shifts.append((p50, p90))
            of_p50, of_p90 = next(submissions)
            quantile = said[one][0] + (of_p50 + p50)
            told.append((quantile, max(quantile, said[one][1] + (of_p90 + p90))))
        self.offsets += np.array(shifts).reshape(self.offsets.shape)

    def calibration(self) -> RunTimeCalibration:
        """What is known in the end, but for the jobs in flight that do not run."""
        book, after = self._book, RunTimeCalibration()
        after.looked_s, after.usual_hazards = book.looks[-1][1], self.usual[-1]
        place_of = {
            **self._fill(after.all_jobs, {None: ALL_JOBS}),
            **self._fill(after.clusters, book.clusters),
            **self._fill(after.owners, book.owners),
        }
        running = [flight for flight in book.flights.values() if book.started_at[flight] != NEVER]
        for flight in sorted(running, key=book.started_at.__getitem__):
            places = tuple(place_of.get(group, NO_GROUP) for group in book.groups[flight])
            job = RunningJob(
                book.start_s[flight],
                tuple(book.said[flight]),
                book.weights[flight],
                places,
                book.clocks_at_start[flight],
            )
            after.running.add(book.ids[flight], job)
        after.count_passed()
        return after

    def _fill(self, news: ResidualNews[Name], groups: Mapping[Name, int]) -> dict[int, int]:
        """Tell what is known of groups in the end; returns their places."""
        place_of = {}
        for name, group in groups.items():
            place, _ = news.see(name)
            news.clocks[place] = self._book.clocks[group]
            news.ended[place] = self._ended[group][: news.levels]
            place_of[group] = place
        return place_of

    def _usual_hazards(self, sums: ResidualSums) -> Floats:
        """The hazards of all jobs as of each look, shape (looks, levels, BINS)."""
        events, _, clocks = zip(*self._book.looks, strict=True)
        usual = np.empty((len(events), *SHAPE))
        every = np.full(len(events), ALL_JOBS)
        asked = Asked(every, turn(np.array(events, dtype=np.intp), AFTER_LOOK), np.array(clocks))
        for rows, ended, passed in self._asked(sums, ALL_JOBS, asked, (ALL_JOBS,)):
            usual[rows] = hazards(ended, passed, EXPECTED)
        usual[0] = self._book.usual_hazards
        return usual

    def _asked(
        self, sums: ResidualSums, tier: int, known: Asked, alive: Iterable[int]
    ) -> Iterator[tuple[Rows, Floats, Floats]]:
        """Answers to the questions about groups that are known; where jobs of those alive have ended by the
        end is noted.
        """
        asks = np.flatnonzero(known.groups != NO_GROUP)
        living = np.array(list(alive), dtype=np.intp)
        late = np.full(len(living), np.iinfo(np.int32).max)
        every = Asked(
            np.concatenate([known.groups[asks], living]),
            np.concatenate([known.turns[asks], late]),
            np.concatenate([known.clocks[asks], np.array(self._book.clocks)[living]]),
        )
        for rows, ended, passed in sums.of(tier, every):
            is_last = rows >= len(asks)
            for row in np.flatnonzero(is_last).tolist():
                self._ended[int(living[rows[row] - len(asks)])] = ended[row]
            now = ~is_last
            yield asks[rows[now]], ended[now], passed[now]


def _quantiles(of_bins: Floats) -> Floats:
    """The quantiles of LEVELS of hazards of shape (rows, levels, BINS)."""
    return np.stack(
        [quantiles_of_all(of_bins[:, place], level) for place, level in enumerate(LEVELS)], axis=1
    )


def _events(stream: JobStream, said: Floats, until_s: float) -> tuple[list[float], list[int], list[int]]:
    """Times, kinds and jobs of what happens, in turn."""
    submit_s = stream.submit_s
    ran = ~np.isnan(stream.duration_s)
    # A job without a known start runs from its submission on; clocks that disagree must not turn time back.
    start_s = np.where(np.isnan(stream.start_s) & ran, submit_s, stream.start_s)
    start_s = np.where(start_s < submit_s, submit_s, start_s)
    end_s = np.fmax(stream.end_s, np.fmax(start_s, submit_s))
    jobs = np.arange(submit_s.size)
    times = np.concatenate([submit_s, start_s, end_s])
    # What happens to a job at its very submission does so after it.
    early = np.concatenate([np.ones(jobs.size, dtype=np.bool_), start_s > submit_s, end_s > submit_s])
    kinds = np.repeat([SUBMISSION, START, END], jobs.size)
    rank = np.where(kinds == SUBMISSION, 1, np.where(early, 0, 2))
    happens = np.concatenate([~np.isnan(said).any(axis=1), ~np.isnan(start_s), ~np.isnan(stream.end_s)])
    whose = np.tile(jobs, 3)
    order = np.lexsort((kinds, whose, rank, times))
    order = order[happens[order] & (times[order] <= until_s)]
    return times[order].tolist(), kinds[order].tolist(), whose[order].tolist()
