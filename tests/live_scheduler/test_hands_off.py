"""Jobs that the settings leave alone, and the lists that name them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from foundation.errors import BadInputError, UnknownNameError
from live_scheduler.adapter import Advise, ReturnToDefault, SetPriority, is_kept
from live_scheduler.cluster_state import ClusterState, LiveJob
from live_scheduler.live_settings import HandsOff
from live_scheduler.safety.restoring import changes_of_hands_off
from live_scheduler.safety.touched import TouchedJobs
from live_scheduler.settings_file import read_live_settings, settings_from
from tests.live_scheduler.memory_cluster import MemoryCluster

JOB = LiveJob(
    "17_3",
    "debug,vc1",
    "debug,vc1",
    1,
    0.0,
    user="ada",
    other_facts={"account": "chem", "qos": "urgent"},
    reserved_in="lab",
)
NONE: dict[str, Any] = {"reservations": ()}


@pytest.mark.parametrize(
    ("named", "what"),
    [
        ({"jobs": ("17",)}, "the job 17"),
        ({"jobs": ("17_3",)}, "the job 17_3"),
        ({"users": ("bob", "ada")}, "user ada"),
        ({"accounts": ("Chem",)}, "account chem"),
        ({"qos": ("URGENT",)}, "QOS urgent"),
        ({"partitions": ("vc1",)}, "partition vc1"),
        ({"reservations": ("lab",)}, "reservation lab"),
        ({"reservations": ("*",)}, "the reservation lab"),
    ],
)
def test_a_job_that_is_named_is_left_alone(named: dict[str, Any], what: str) -> None:
    why = HandsOff(**NONE | named).why(JOB)
    assert what in why
    job = replace(JOB, hands_off=why)
    assert is_kept(SetPriority("17_3", 1), job)
    assert is_kept(Advise("17_3", "soon"), job)
    assert not is_kept(Advise("17_3", ""), job)


@pytest.mark.parametrize(
    "named",
    [
        {},
        {"jobs": ("1", "3", "17_30")},
        {"users": ("ad", "Ada", "chem")},
        {"accounts": ("ada", "che")},
        {"partitions": ("vc", "debug,vc1x")},
        {"reservations": ("la",)},
    ],
)
def test_others_are_not(named: dict[str, Any]) -> None:
    named = {key: tuple(name for name in names if "," not in name) for key, names in named.items()}
    assert HandsOff(**NONE | named).why(JOB) == ""


def test_by_default_those_that_ask_for_a_reservation_are() -> None:
    plain = replace(JOB, job_id="18", reserved_in="")
    state = HandsOff().over(ClusterState(0.0, (JOB, plain), ()))
    assert [bool(job.hands_off) for job in state.jobs] == [True, False]
    assert HandsOff().over(replace(state, jobs=(plain,))).jobs == (plain,)


def test_the_settings_file_has_the_lists(tmp_path: Path) -> None:
    path = tmp_path / "live.toml"
    path.write_text('cluster = "mine"\n[hands_off]\nusers = ["ada"]\nreservations = []\n')
    assert read_live_settings(path).hands_off == HandsOff(users=("ada",), reservations=())
    assert settings_from({"cluster": "mine"}).hands_off == HandsOff()


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"users": [""]}, "users names ''"),
        ({"users": ["ada, bob"]}, "users names 'ada, bob'"),
        ({"users": ["ada\n"]}, "users names"),
        ({"users": "ada"}, "a list of names"),
        ({"users": [7]}, "a list of names"),
        ({"accounts": ["chem*"]}, "no patterns"),
        ({"jobs": ["*"]}, "no patterns"),
        ({"qos": ["x" * 300]}, "qos names"),
        ({"partitions": ["vc1"]}, "which other settings use"),
    ],
)
def test_bad_entries_are_refused_with_the_place(table: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInputError) as refused:
        settings_from({"cluster": "mine", "partitions": ["vc1"], "hands_off": table})
    assert said in f"{refused.value} {refused.value.remedy}"


def test_a_list_of_something_else_is_named() -> None:
    with pytest.raises(UnknownNameError, match="user"):
        settings_from({"cluster": "mine", "hands_off": {"user": ["ada"]}})


def test_what_stands_of_ours_is_given_back_once(tmp_path: Path) -> None:
    cluster, touched = MemoryCluster(), TouchedJobs(tmp_path)
    named, other = cluster.submit(), cluster.submit()
    own = cluster.jobs[named].priority
    changes = [SetPriority(named, 20_000), SetPriority(other, 20_001)]
    touched.note(changes, cluster.read(), cluster.priorities)
    cluster.apply(changes)
    hands_off = HandsOff(jobs=(named,))
    back = changes_of_hands_off(hands_off.over(cluster.read()), touched, cluster.priorities)
    assert back == [ReturnToDefault(named, own)]
    cluster.apply(back)
    assert changes_of_hands_off(hands_off.over(cluster.read()), touched, cluster.priorities) == []
