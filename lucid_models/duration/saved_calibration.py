"""The calibration of run times as plain data, and read from it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucid_models.duration.calibration import (
    MAX_AWAITED,
    MAX_OWNERS,
    MAX_VIRTUAL_CLUSTERS,
    NEVER_S,
    AwaitedJob,
    RunTimeCalibration,
)
from lucid_models.duration.residuals import (
    BINS,
    LEVELS,
    MOST,
    SHAPE,
    TIERS,
    LastingMisses,
    ResidualNews,
    RunningJob,
)
from lucid_models.model_format import Fields, FormatVersionError, finite_list

LAYOUT = 5
_SIZE = SHAPE[0] * SHAPE[1]
_MOST = 1e15  # of a clock and a time


def calibration_to_data(calibration: RunTimeCalibration) -> dict[str, Any]:
    """Plain data for JSON."""
    awaited, running = calibration.awaited.values(), calibration.running
    table = running.table()
    places, clocks = table[:, running.PLACES].astype(np.intp), table[:, running.CLOCKS]
    return {
        "layout": LAYOUT,
        "looked_s": calibration.looked_s,
        "usual_hazards": finite_list(calibration.usual_hazards.ravel()),
        "shifts": list(calibration.lasting.shifts),
        "clock": float(calibration.all_jobs.clocks[0]),
        "ended": finite_list(calibration.all_jobs.ended[0].ravel()),
        "virtual_clusters": list(calibration.clusters.places),
        **_news_to_data(calibration.clusters, "clusters"),
        "owners": [owner for _, owner in calibration.owners.places],
        "owners_virtual_clusters": [name for name, _ in calibration.owners.places],
        **_news_to_data(calibration.owners, "owners"),
        "awaited": list(calibration.awaited),
        "awaited_virtual_clusters": [job.virtual_cluster for job in awaited],
        "awaited_users": [job.owner for job in awaited],
        "awaited_weights": [job.weight for job in awaited],
        "awaited_quantiles": [each for job in awaited for each in job.said],
        "awaited_told": [each for job in awaited for each in job.told],
        "running": list(running.job_ids),
        "running_starts_s": finite_list(table[:, running.START]),
        "running_clocks": finite_list(clocks[:, 0]),
        "running_clocks_of_clusters": finite_list(clocks[:, 1]),
        "running_clusters": _turns(calibration.clusters, places[:, 1]),
        "running_clocks_of_owners": finite_list(clocks[:, 2]),
        "running_owners": _turns(calibration.owners, places[:, 2]),
    }


def _news_to_data(news: ResidualNews[Any], which: str) -> dict[str, list[float]]:
    places = list(news.places.values())
    return {
        f"clocks_of_{which}": finite_list(news.clocks[places]),
        f"ended_of_{which}": finite_list(news.ended[places].ravel()),
    }


def _turns(news: ResidualNews[Any], places: NDArray[np.intp]) -> list[int]:
    """In the file a group's place is its turn among those named."""
    turns = {place: turn for turn, place in enumerate(news.places.values())}
    return [turns.get(place, -1) for place in places.tolist()]


def read_calibration(fields: Fields) -> RunTimeCalibration:
    """Read what `calibration_to_data` wrote; raises CorruptModelError and FormatVersionError."""
    layout = fields.integer("layout", 1, 1_000_000)
    if layout != LAYOUT:
        raise FormatVersionError(
            f"{fields.place} has layout {layout} of the calibration; this program reads {LAYOUT}.",
            remedy="Train the duration model again with this version.",
        )
    calibration = RunTimeCalibration()
    calibration.looked_s = fields.number("looked_s", NEVER_S, _MOST)
    calibration.usual_hazards = _sized(fields, "usual_hazards", _SIZE, 0.0, 1.0).reshape(SHAPE)
    all_jobs = calibration.all_jobs
    all_jobs.ended[0] = _sized(fields, "ended", _SIZE, 0.0, _MOST).reshape(SHAPE)
    all_jobs.clocks[0] = fields.number("clock", 0.0, _MOST)
    clusters = fields.texts("virtual_clusters", most=MAX_VIRTUAL_CLUSTERS, unique=True)
    _read_news(fields, "clusters", calibration.clusters, clusters)
    _read_owners(fields, calibration)
    calibration.lasting = LastingMisses(_sized(fields, "shifts", len(LEVELS), -MOST, MOST).tolist())
    _read_awaited(fields, calibration)
    _read_running(fields, calibration)
    calibration.count_passed()
    return calibration


def _read_owners(fields: Fields, calibration: RunTimeCalibration) -> None:
    owners, clusters = (fields.texts(name, most=MAX_OWNERS) for name in ("owners", "owners_virtual_clusters"))
    pairs = list(zip(clusters, owners, strict=False))
    if len(owners) != len(clusters) or len(set(pairs)) < len(pairs):
        raise fields.fail("owners", "do not match their virtual clusters, or repeat")
    _read_news(fields, "owners", calibration.owners, pairs)


def _read_news(fields: Fields, which: str, news: ResidualNews[Any], names: Sequence[Any]) -> None:
    clocks = _sized(fields, f"clocks_of_{which}", len(names), 0.0, _MOST).tolist()
    size = len(names) * news.levels * BINS
    ended = _sized(fields, f"ended_of_{which}", size, 0.0, _MOST).reshape(-1, news.levels, BINS)
    for name, clock, of_group in zip(names, clocks, ended, strict=True):
        place, _ = news.see(name)
        news.clocks[place], news.ended[place] = clock, of_group


def _read_awaited(fields: Fields, calibration: RunTimeCalibration) -> None:
    jobs = fields.texts("awaited", most=MAX_AWAITED, unique=True)
    clusters, users = (
        fields.texts(f"awaited_{name}", most=MAX_AWAITED) for name in ("virtual_clusters", "users")
    )
    if not len(jobs) == len(clusters) == len(users):
        raise fields.fail("awaited", "does not match its virtual clusters and users")
    weights = _sized(fields, "awaited_weights", len(jobs), 0.0, 1.0).tolist()
    said, told = (_quantiles(fields, name, len(jobs)) for name in ("awaited_quantiles", "awaited_told"))
    for job_id, *job in zip(jobs, clusters, users, said, told, weights, strict=True):
        calibration.await_end(job_id, AwaitedJob(*job))


def _read_running(fields: Fields, calibration: RunTimeCalibration) -> None:
    jobs = fields.texts("running", most=MAX_AWAITED, unique=True)
    if not set(jobs) <= calibration.awaited.keys():
        raise fields.fail("running", "names a job that is not awaited")
    starts_s = _sized(fields, "running_starts_s", len(jobs), NEVER_S, _MOST)
    places, clocks = np.full((len(jobs), TIERS), -1, dtype=np.intp), np.zeros((len(jobs), TIERS))
    # A clock at a start that is ahead of the clock now would give a job any weight.
    places[:, 0] = 0
    clocks[:, 0] = _sized(fields, "running_clocks", len(jobs), 0.0, float(calibration.all_jobs.clocks[0]))
    tiers: list[tuple[str, ResidualNews[Any]]] = [
        ("clusters", calibration.clusters),
        ("owners", calibration.owners),
    ]
    for tier, (which, news) in enumerate(tiers, 1):
        turns = _sized(fields, f"running_{which}", len(jobs), -1, len(news.places) - 1).astype(np.intp)
        at_start = _sized(fields, f"running_clocks_of_{which}", len(jobs), 0.0, _MOST)
        if (at_start > np.append(news.clocks[: len(news.places)], _MOST)[turns]).any():
            raise fields.fail(f"running_clocks_of_{which}", "are ahead of their clocks now")
        places[:, tier], clocks[:, tier] = turns, at_start
    rows = zip(starts_s.tolist(), places.tolist(), clocks.tolist(), strict=True)
    for job_id, (start_s, where, at) in zip(jobs, rows, strict=True):
        job = calibration.awaited[job_id]
        calibration.running.add(job_id, RunningJob(start_s, job.said, job.weight, tuple(where), tuple(at)))


def _quantiles(fields: Fields, name: str, jobs: int) -> list[tuple[float, ...]]:
    numbers = _sized(fields, name, jobs * len(LEVELS), -1e3, 1e3).reshape(-1, len(LEVELS))
    return [tuple(of_job) for of_job in numbers.tolist()]


def _sized(fields: Fields, name: str, size: int, low: float, high: float) -> NDArray[np.float64]:
    numbers = fields.numbers(name, low, high)
    if numbers.size != size:
        raise fields.fail(name, f"holds {numbers.size} numbers, not {size}")
    return numbers
