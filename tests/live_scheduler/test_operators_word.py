"""What another hand sets of a job after the live scheduler had stands, for a pass and for the way back."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from live_scheduler.adapter import Advise, Change, MoveTo, RestrictToNode, SetPriority, StartAfter, is_kept
from live_scheduler.cluster_state import Kept, LiveJob
from live_scheduler.safety.operators_word import OperatorsWord, WordsOnRecord
from live_scheduler.safety.restoring import restore
from live_scheduler.safety.touched import TouchedJobs, Way
from tests.live_scheduler.memory_cluster import MemoryCluster

OURS = 20_000


class Site:
    """A cluster and the records of one daemon."""

    def __init__(self, folder: Path, *, computed: bool = False) -> None:
        self.folder = folder
        self.cluster = MemoryCluster(computed=computed)
        self.job = self.cluster.submit()
        self.touched = TouchedJobs(folder)
        self.words = OperatorsWord(folder, self.cluster, self.touched)

    def ask(self, *changes: Change) -> None:
        self.touched.note(changes, self.cluster.read(), self.cluster.priorities)
        self.words.asked(changes)
        self.cluster.apply(changes)

    def set(self, **values: Any) -> None:
        """Set fields of the job, as an operator does."""
        self.cluster.jobs[self.job] = replace(self.cluster.jobs[self.job], **values)

    def heard(self) -> LiveJob:
        return self.words.heard(self.cluster.read()).by_id[self.job]

    def restart(self) -> None:
        """Let the daemon be another process."""
        self.touched = TouchedJobs(self.folder)
        self.words = OperatorsWord(self.folder, self.cluster, self.touched)


@pytest.fixture(params=[False, True], ids=["counted", "computed"])
def site(tmp_path: Path, request: pytest.FixtureRequest) -> Site:
    return Site(tmp_path, computed=request.param)


def test_a_priority_that_was_set_after_ours_stands_also_after_a_restart_and_the_way_back(site: Site) -> None:
    site.ask(SetPriority(site.job, OURS))
    assert not site.heard().kept
    site.set(priority=4711)
    assert "its priority to 4711" in site.heard().kept[Kept.ORDER]
    site.restart()
    job = site.heard()
    assert Kept.ORDER in job.kept
    assert is_kept(SetPriority(site.job, OURS), job)
    assert not is_kept(Advise(site.job, "soon"), job)
    done = restore(site.cluster, site.touched)
    assert (done.complete, done.returned, done.by_hand) == (True, (), (site.job,))
    assert site.cluster.jobs[site.job].priority == 4711
    site.restart()
    assert Kept.ORDER in site.heard().kept, "the next daemon knows too"


def test_the_way_back_sees_what_no_pass_has_seen(site: Site) -> None:
    site.ask(SetPriority(site.job, OURS))
    site.set(priority=OURS + 17)
    assert restore(site.cluster, TouchedJobs(site.folder)).by_hand == (site.job,)
    assert site.cluster.jobs[site.job].priority == OURS + 17


@pytest.mark.parametrize(
    "happens",
    [
        lambda site, own: site.set(priority=own),  # it was never written, or the backfill wrote it back
        lambda site, own: site.ask(SetPriority(site.job, OURS + 1)),
        lambda site, own: [site.ask(SetPriority(site.job, OURS + 1)), site.set(priority=OURS)],
        lambda site, own: [site.cluster.hold(site.job), site.heard(), site.cluster.release(site.job)],
        lambda site, own: [site.cluster.hold(site.job), site.cluster.release(site.job)],
        lambda site, own: site.cluster.hold(site.job),
        lambda site, own: site.set(priority=OURS - 5, nice=5),  # makes room for another's `scontrol top`
    ],
)
def test_what_is_ours_or_the_clusters_is_no_word(site: Site, happens: Callable[[Site, int], object]) -> None:
    own = site.cluster.jobs[site.job].priority or 0
    site.ask(SetPriority(site.job, OURS))
    site.heard()
    happens(site, own)
    assert not site.heard().kept
    assert not restore(site.cluster, site.touched).by_hand


def test_a_job_that_was_never_written_to_has_no_word(site: Site) -> None:
    site.set(priority=4711, nice=5, begin_time_s=2_000.0)
    assert not site.heard().kept


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ({"priority": OURS, "nice": -50}, "scontrol top"),
        ({"priority": OURS + 9, "nice": -50}, "scontrol top"),
        ({"priority": OURS + 50, "nice": -50}, "scontrol top"),
        ({"priority": OURS + 9}, "priority"),
    ],
)
def test_a_place_among_ours_is_a_word(site: Site, values: dict[str, int], what: str) -> None:
    site.ask(SetPriority(site.job, OURS))
    site.set(**values)
    assert what in site.heard().kept[Kept.ORDER]


def test_release_takes_a_word_back_and_another_number_goes_on(site: Site) -> None:
    site.ask(SetPriority(site.job, OURS))
    site.set(priority=4711)
    first = site.heard().kept[Kept.ORDER]
    site.set(priority=4712)
    assert "4712" in site.heard().kept[Kept.ORDER] != first
    site.cluster.hold(site.job)
    assert Kept.ORDER in site.heard().kept
    site.cluster.release(site.job)
    assert not site.heard().kept
    site.ask(SetPriority(site.job, OURS))
    assert not site.heard().kept


def test_the_room_that_top_makes_for_another_job_changes_no_word(site: Site) -> None:
    site.ask(SetPriority(site.job, OURS))
    site.set(priority=4711)
    word = site.heard().kept[Kept.ORDER]
    site.set(priority=4701, nice=10)
    assert site.heard().kept[Kept.ORDER] == word
    restore(site.cluster, site.touched)


def test_a_nice_value_of_a_job_that_was_held_and_released_stands(tmp_path: Path) -> None:
    site = Site(tmp_path, computed=True)
    site.ask(SetPriority(site.job, OURS))
    site.cluster.hold(site.job)
    site.heard()
    site.set(nice=50)
    site.cluster.release(site.job)
    assert "nice value to 50" in site.heard().kept[Kept.ORDER]
    site.set(nice=0, priority=1_001)
    assert not site.heard().kept


def test_the_backfill_that_undoes_an_operators_number_does_not_take_it_back(site: Site) -> None:
    site.ask(SetPriority(site.job, OURS))
    site.set(priority=4711)
    site.heard()
    site.set(priority=OURS)
    assert "4711" in site.heard().kept[Kept.ORDER]
    assert restore(site.cluster, site.touched).complete
    assert site.cluster.jobs[site.job].priority == 4711


def test_a_comment_that_is_written_anew_or_cleaned_stands(site: Site) -> None:
    site.ask(Advise(site.job, "soon"))
    site.set(advice="soon")
    assert not site.heard().kept
    site.set(advice="")
    job = site.heard()
    assert is_kept(Advise(site.job, "sooner"), job)
    assert not is_kept(SetPriority(site.job, OURS), job)
    restore(site.cluster, site.touched)
    assert Advise(site.job, "") not in site.cluster.asked


def test_a_text_that_is_taken_away_from_here_may_come_again(site: Site) -> None:
    site.ask(Advise(site.job, "soon"))
    site.set(advice="soon")
    site.heard()
    site.ask(Advise(site.job, ""))
    site.set(advice="")
    assert not site.heard().kept


def test_a_begin_time_that_was_set_after_ours_stands(site: Site) -> None:
    site.ask(StartAfter(site.job, 60))
    site.set(begin_time_s=1_061.0)
    assert not site.heard().kept
    site.set(begin_time_s=1_090.0)
    job = site.heard()
    assert is_kept(StartAfter(site.job, 60), job)
    assert is_kept(RestrictToNode(site.job, "n1"), job)
    restore(site.cluster, site.touched)
    assert StartAfter(site.job, 0) not in site.cluster.asked


@pytest.mark.parametrize(
    "values",
    [
        {"begin_time_s": None},  # it was never written
        {"begin_time_s": 1_061.0},
        {"begin_time_s": 1_150.0, "restarts": 1},  # it was requeued, and Slurm lets it wait
    ],
)
def test_begin_times_of_ours_and_of_a_requeue_are_no_word(site: Site, values: dict[str, float]) -> None:
    site.ask(StartAfter(site.job, 60))
    site.set(**values)
    for _ in range(2):
        assert not site.heard().kept
    restore(site.cluster, site.touched)
    assert StartAfter(site.job, 0) in site.cluster.asked


def test_another_node_stands(site: Site) -> None:
    site.ask(RestrictToNode(site.job, "n1"))
    site.set(pinned_to="n1")
    assert not site.heard().kept
    site.set(pinned_to="n2")
    assert "its node to n2" in site.heard().kept[Kept.START]


def test_a_job_of_the_profiling_partition_comes_home_in_any_case(site: Site) -> None:
    site.set(partition="prof", kept={Kept.ORDER: "an operator"})
    job = site.cluster.jobs[site.job]
    assert not is_kept(MoveTo(site.job, "vc1", "vc1"), job)


def test_words_go_with_their_jobs(site: Site) -> None:
    others = [site.cluster.submit() for _ in range(3)]
    site.ask(SetPriority(site.job, OURS))
    site.set(priority=4711)
    site.heard()
    site.cluster.end(site.job)
    site.words.heard(site.cluster.read())
    assert len(others) == len(site.cluster.read().jobs)
    assert not len(WordsOnRecord(site.folder))


def test_a_disk_that_is_full_is_no_hindrance_to_the_way_back(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.ask(SetPriority(site.job, OURS))
    site.set(priority=4711)

    def full(*_: object, **__: object) -> None:
        raise OSError("no space")

    monkeypatch.setattr("live_scheduler.memory.records.append_lines", full)
    with pytest.raises(OSError, match="no space"):
        site.heard()
    restore(site.cluster, site.touched)
    assert site.cluster.jobs[site.job].priority == 4711


def test_what_an_earlier_version_wrote_down_is_read(tmp_path: Path) -> None:
    (tmp_path / "touched.jsonl").write_text('{"job_id": "1", "how": ["ordered"], "priority": 4294901760}\n')
    site = Site(tmp_path)
    assert site.touched.of(site.job).how == {Way.ORDERED}
    site.set(priority=4711)
    assert not site.heard().kept, "whose it is cannot be told"
