"""Slurm's answers about nodes, counted: states with their marks, shared nodes, files of many answers."""

from datetime import UTC, datetime

import pytest

from cluster_logs.slurm_nodes import node_state, read_slurm_nodes
from foundation.errors import BadInputError

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)

STATES = {
    "idle": (
        "idle",
        "planned",
        "reserved",
        "IDLE+CLOUD",
        "idle!",
        "idle@",
        "IDLE+PLANNED",
        "idle-",
        "IDLE+DYNAMIC_NORM+RESERVED",
        "idle+external",
        "IDLE+PERFCTRS",
        "idle+power_down",
    ),
    "busy": ("allocated", "mixed", "mixed-", "completing", "draining", "MIXED+DRAIN", "allocated*", "mixed!"),
    "down": (
        "down",
        "down*",
        "down~",
        "drained",
        "drained~",
        "idle*",
        "maint",
        "idle$",
        "IDLE+DRAIN",
        "IDLE+DYNAMIC_NORM+INVALID_REG",
        "idle+blocked",
        "idle+dynamic_norm+reboot_issued",
        "fail",
    ),
    "asleep": ("idle~", "IDLE+CLOUD+POWERED_DOWN", "idle%", "IDLE+POWERING_DOWN"),
    "booting": ("idle#", "mixed#", "allocated#", "IDLE+CLOUD+NOT_RESPONDING+POWERING_UP"),
}


@pytest.mark.parametrize(("state", "words"), [(state, word) for state in STATES for word in STATES[state]])
def test_what_a_node_is_by_slurms_words_for_it(state: str, words: str) -> None:
    assert node_state(words) == state


def test_a_state_that_is_not_known_is_no_usable_node_and_a_flag_that_is_not_known_changes_nothing() -> None:
    assert node_state("teleporting") == node_state("") == "down"
    assert node_state("idle+teleporting") == "idle"


def test_nodes_that_registered_at_run_time_are_counted_by_what_they_do() -> None:
    states = ("IDLE", "IDLE+PLANNED", "MIXED", "IDLE+DRAIN")
    text = "".join(
        f"NodeName=g{at} CPUTot=64 Gres=gpu:a:4 State={state}+DYNAMIC_NORM Partitions=gpu AllocTRES=\n"
        for at, state in enumerate(states)
    )
    whole = read_slurm_nodes(text, "nodes.txt", at=NOON).to_pylist()[0]
    assert [whole[name] for name in ("total", "busy", "idle", "down")] == [4, 1, 2, 1]


def test_a_node_of_two_partitions_counts_once_in_the_cluster_and_in_each() -> None:
    text = "n1|a|gpu:8|mixed\nn1|b|gpu:8|mixed\nn2|b|gpu:a100:4(S:0-1),shard:8|idle~\nlogin|a|(null)|idle\n"
    rows = read_slurm_nodes(text, "nodes.txt", at=NOON).to_pylist()

    counts = [(row["virtual_cluster"], row["total"], row["busy"], row["asleep"]) for row in rows]
    assert counts == [(None, 2, 1, 1), ("a", 1, 1, 0), ("b", 2, 1, 1)]
    assert {(row["time"], row["origin"], row["held"]) for row in rows} == {(NOON, "slurm", False)}


def test_a_cluster_without_any_gpu_is_counted_as_a_whole() -> None:
    rows = read_slurm_nodes("n1|a|(null)|mixed\nn2|a|(null)|drained\n", "nodes.txt", at=NOON).to_pylist()

    assert (rows[0]["total"], rows[0]["busy"], rows[0]["down"]) == (2, 1, 1)


def test_a_file_of_many_answers_is_many_counts() -> None:
    text = (
        "# 2026-03-01T12:00:00Z\nn1|a|gpu:8|mixed\n\n"
        "# 2026-03-01T14:01:00+02:00\nn1|a|gpu:8|idle\n"
        "# 2026-03-01T12:02:00\n"
    )
    rows = read_slurm_nodes(text, "nodes.txt").to_pylist()

    whole = [(row["time"].minute, row["busy"], row["idle"]) for row in rows if row["virtual_cluster"] is None]
    assert whole == [(0, 1, 0), (1, 0, 1)]


@pytest.mark.parametrize("one_line", [False, True])
def test_scontrols_records_are_read_and_reasons_are_not(one_line: bool) -> None:
    drained = "State=IDLE+DRAIN ThreadsPerCore=1\n   Partitions=a,b \n   Reason=Partitions=z State=MIXED"
    records = [
        f"NodeName=n1 Arch=x86_64\n   Gres=gpu:4\n   {drained} NodeName=x [root@2026-03-01T08:00:00]",
        "NodeName=n2\n   Gres=gpu:4\n   State=MIXED+POWERING_UP ThreadsPerCore=1\n   Partitions=b ",
        "NodeName=n3\n   Gres=(null)\n   State=IDLE",
    ]
    if one_line:
        records = [" ".join(record.split()) for record in records]
    rows = read_slurm_nodes("\n\n".join(records) + "\n", "nodes.txt", at=NOON).to_pylist()

    counts = [(row["virtual_cluster"], row["total"], row["down"], row["booting"]) for row in rows]
    assert counts == [(None, 2, 1, 1), ("a", 1, 1, 0), ("b", 2, 1, 1)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n1|a|gpu:8\n", "line 1: 'n1|a|gpu:8' is no node"),
        ("# 2026-03-01T12:00:00Z\nn1|a|gpu:8|idle\nn2|a|gpu:8|\n", "line 3"),
        ("# yesterday\nn1|a|gpu:8|idle\n", "line 1: 'yesterday' is no time"),
        ("NodeName=n1 Arch=x86_64\n", "node 'n1' has no state"),
        ("", "names no node"),
    ],
)
def test_what_slurm_did_not_write_is_named(text: str, message: str) -> None:
    with pytest.raises(BadInputError, match=message.replace("|", r"\|")):
        read_slurm_nodes(text, "nodes.txt", at=NOON)


def test_a_count_without_a_time_is_asked_for_one() -> None:
    with pytest.raises(BadInputError, match="does not say when"):
        read_slurm_nodes("n1|a|gpu:8|idle\n", "nodes.txt")
