"""The calibration of run times as plain data, and read from it.

Models that were saved while offsets followed the misses of ended jobs (layout 1: one offset a level of all
jobs and of each virtual cluster) are read as if WINDOW jobs of each had shown these offsets to be right.
`tests/lucid_models/saved/run_time_calibration_layout_1.json` is such a calibration. Layout 2 had bins half a
width lower: each is shared out evenly among the two that it overlaps. Up to layout 3 what jobs in flight were
told was not kept: it is taken to be what they would be told now.
"""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucid_models.duration.calibration import (
    MAX_AWAITED,
    MAX_VIRTUAL_CLUSTERS,
    NEVER_S,
    AwaitedJob,
    RunTimeCalibration,
)
from lucid_models.duration.lasting_misses import MOST, LastingMisses
from lucid_models.duration.residual_hazards import EXPECTED, LEVELS, SHAPE, ends_expected
from lucid_models.duration.residual_news import WINDOW, ResidualNews, RunningJob
from lucid_models.model_format import Fields, finite_list

_SIZE = SHAPE[0] * SHAPE[1]
_MOST = 1e15  # of a clock and a time


def calibration_to_data(calibration: RunTimeCalibration) -> dict[str, Any]:
    """Plain data for JSON."""
    clusters = [calibration.of_clusters[place] for place in calibration.clusters.values()]
    # In the file a virtual cluster's place is its turn among those named.
    turns = {place: turn for turn, place in enumerate(calibration.clusters.values())}
    awaited, running = calibration.awaited.values(), calibration.running
    table = running.table()
    return {
        "layout": 4,
        "looked_s": calibration.looked_s,
        "usual_hazards": finite_list(calibration.usual_hazards.ravel()),
        "shifts": list(calibration.lasting.shifts),
        "clock": calibration.of_all.clock,
        "ended": finite_list(calibration.of_all.ended.ravel()),
        "virtual_clusters": list(calibration.clusters),
        "clocks_of_clusters": [news.clock for news in clusters],
        "ended_of_clusters": [each for news in clusters for each in finite_list(news.ended.ravel())],
        "awaited": list(calibration.awaited),
        "awaited_virtual_clusters": [job.virtual_cluster for job in awaited],
        "awaited_users": [job.owner for job in awaited],
        "awaited_weights": [job.weight for job in awaited],
        "awaited_quantiles": [each for job in awaited for each in job.said],
        "awaited_told": [each for job in awaited for each in job.told],
        "running": list(running.job_ids),
        "running_starts_s": finite_list(table[:, running.START]),
        "running_clocks": finite_list(table[:, running.CLOCK_OF_ALL]),
        "running_clocks_of_clusters": finite_list(table[:, running.CLOCK]),
        "running_clusters": [turns.get(int(place), -1) for place in table[:, running.PLACE]],
    }


def read_calibration(fields: Fields) -> RunTimeCalibration:
    """Read what `calibration_to_data` wrote, and the layouts before; raises CorruptModelError."""
    if not fields.has("layout"):
        return _read_layout_1(fields)
    layout = fields.integer("layout", 2, 4)
    binned = _half_a_bin_higher if layout == 2 else np.copy
    calibration = RunTimeCalibration()
    calibration.looked_s = fields.number("looked_s", NEVER_S, _MOST)
    calibration.usual_hazards = _sized(fields, "usual_hazards", _SIZE, 0.0, 1.0).reshape(SHAPE)
    of_all = _sized(fields, "ended", _SIZE, 0.0, _MOST).reshape(SHAPE)
    calibration.of_all = ResidualNews(binned(of_all), clock=fields.number("clock", 0.0, _MOST))
    names = fields.texts("virtual_clusters", most=MAX_VIRTUAL_CLUSTERS, unique=True)
    clocks = _sized(fields, "clocks_of_clusters", len(names), 0.0, _MOST).tolist()
    ended = _sized(fields, "ended_of_clusters", len(names) * _SIZE, 0.0, _MOST).reshape(-1, *SHAPE)
    for name, clock, of_cluster in zip(names, clocks, ended, strict=True):
        calibration.know_cluster(name, ResidualNews(binned(of_cluster), clock=clock))
    if layout == 4:
        calibration.lasting = LastingMisses(_sized(fields, "shifts", len(LEVELS), -MOST, MOST).tolist())
    _read_awaited(fields, calibration, "awaited_told" if layout == 4 else "awaited_quantiles")
    _read_running(fields, calibration)
    calibration.running.count_passed(calibration.looked_s, calibration.of_all, calibration.of_clusters)
    if layout == 2:
        calibration.usual_hazards = calibration.of_all.hazards(EXPECTED)
    if layout < 4:
        _tell_now(calibration)
    return calibration


def _tell_now(calibration: RunTimeCalibration) -> None:
    for job_id, job in calibration.awaited.items():
        told = calibration.told(job.virtual_cluster, job.said)
        calibration.awaited[job_id] = dataclasses.replace(job, told=told)


def _read_awaited(fields: Fields, calibration: RunTimeCalibration, told_field: str) -> None:
    jobs = fields.texts("awaited", most=MAX_AWAITED, unique=True)
    clusters, users = (
        fields.texts(f"awaited_{name}", most=MAX_AWAITED) for name in ("virtual_clusters", "users")
    )
    if not len(jobs) == len(clusters) == len(users):
        raise fields.fail("awaited", "does not match its virtual clusters and users")
    weights = _sized(fields, "awaited_weights", len(jobs), 0.0, 1.0).tolist()
    said, told = (_quantiles(fields, name, len(jobs)) for name in ("awaited_quantiles", told_field))
    for job_id, *job in zip(jobs, clusters, users, said, told, weights, strict=True):
        calibration.await_end(job_id, AwaitedJob(*job))


def _read_running(fields: Fields, calibration: RunTimeCalibration) -> None:
    jobs = fields.texts("running", most=MAX_AWAITED, unique=True)
    if not set(jobs) <= calibration.awaited.keys():
        raise fields.fail("running", "names a job that is not awaited")
    starts_s = _sized(fields, "running_starts_s", len(jobs), NEVER_S, _MOST)
    turns = _sized(fields, "running_clusters", len(jobs), -1, len(calibration.of_clusters) - 1).astype(
        np.intp
    )
    # A clock at a start that is ahead of the clock now would give a job any weight.
    clocks_of_all = _sized(fields, "running_clocks", len(jobs), 0.0, calibration.of_all.clock)
    clocks = _sized(fields, "running_clocks_of_clusters", len(jobs), 0.0, _MOST)
    now = np.array([*(news.clock for news in calibration.of_clusters), _MOST])
    if (clocks > now[turns]).any():
        raise fields.fail("running_clocks_of_clusters", "are ahead of their virtual clusters' clocks")
    rows = zip(starts_s.tolist(), clocks_of_all.tolist(), clocks.tolist(), turns.tolist(), strict=True)
    for job_id, (start_s, clock_of_all, clock, turn) in zip(jobs, rows, strict=True):
        job = calibration.awaited[job_id]
        running = RunningJob(start_s, job.said, job.weight, clock_of_all, clock, turn)
        calibration.running.add(job_id, running)


def _half_a_bin_higher(ended: NDArray[np.float64]) -> NDArray[np.float64]:
    halves = 0.5 * ended
    shared = halves.copy()
    shared[:, :-1] += halves[:, 1:]
    shared[:, 0] += halves[:, 0]
    return shared


def _quantiles(fields: Fields, name: str, jobs: int) -> list[tuple[float, ...]]:
    numbers = _sized(fields, name, jobs * len(LEVELS), -1e3, 1e3).reshape(-1, len(LEVELS))
    return [tuple(of_job) for of_job in numbers.tolist()]


def _sized(fields: Fields, name: str, size: int, low: float, high: float) -> NDArray[np.float64]:
    numbers = fields.numbers(name, low, high)
    if numbers.size != size:
        raise fields.fail(name, f"holds {numbers.size} numbers, not {size}")
    return numbers


def _read_layout_1(fields: Fields) -> RunTimeCalibration:
    offsets = fields.child("offsets")
    of_all = _sized(offsets, "of_all", len(LEVELS), -1e3, 1e3)
    names = offsets.texts("virtual_clusters", unique=True)
    own = _sized(offsets, "offsets", len(names) * len(LEVELS), -1e3, 1e3).reshape(-1, len(LEVELS))
    calibration = RunTimeCalibration()
    calibration.of_all = ResidualNews(ends_expected(tuple(of_all.tolist()), WINDOW))
    calibration.usual_hazards = calibration.of_all.hazards(EXPECTED)
    for name, more in zip(names, own, strict=True):
        calibration.know_cluster(name, ResidualNews(ends_expected(tuple((of_all + more).tolist()), WINDOW)))
    jobs = fields.texts("awaited", most=MAX_AWAITED, unique=True)
    clusters = fields.texts("awaited_virtual_clusters", most=MAX_AWAITED)
    if len(clusters) != len(jobs):
        raise fields.fail("awaited", "does not match its virtual clusters")
    said = _quantiles(fields, "awaited_quantiles", len(jobs))
    for job_id, cluster, quantiles in zip(jobs, clusters, said, strict=True):
        calibration.await_end(job_id, AwaitedJob(cluster, "", quantiles, quantiles, 1.0))
    _tell_now(calibration)
    return calibration
