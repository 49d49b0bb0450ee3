"""The exact lines that scontrol is told, in their order, and that no word of a user's becomes one of them.

No Slurm is needed: a program in scontrol's place writes down what it is told.
"""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from cluster_logs.slurm_mark import MarkKey, MarkStage, SlurmMark
from live_scheduler.adapter import (
    Advise,
    Change,
    MoveTo,
    Refusal,
    RestrictToNode,
    ReturnToDefault,
    SendHome,
    SetPriority,
    StartAfter,
)
from live_scheduler.cluster_state import LiveJob
from live_scheduler.slurm.control import PRIORITIES, Control
from live_scheduler.slurm.queue_reading import QueueRow
from live_scheduler.slurm.slurm_memory import OVERWRITTEN_FILE, Before, JobComment, Overwritten, SlurmMemory

# Writes down each line of its input and each list of arguments; answers as `answers` says, line -> words.
WITNESS = """
import json, pathlib, sys
folder = pathlib.Path(sys.argv[0]).parent
answers = json.loads((folder / "answers").read_text())
def heard(what):
    with (folder / "heard").open("a") as stream:
        stream.write(json.dumps(what) + "\\n")
if sys.argv[1:] == ["show", "config"]:
    print("PriorityType = " + (folder / "priority").read_text())
elif sys.argv[1:]:
    heard(sys.argv[1:])
else:
    for raw in sys.stdin.buffer:
        line = raw.decode().removesuffix("\\n")
        if line.split(" ")[0] not in ("update", "requeue", "release"):
            print("invalid keyword: " + line, file=sys.stderr, flush=True)
            continue
        heard(line)
        for start, words in answers.items():
            if line.startswith(start):
                print(words, file=sys.stderr, flush=True)
"""
KEY = MarkKey("c", b"a secret of tests")
HOSTILE = [
    "a\nupdate JobId=1 Priority=4294966999",
    "a\r\nrelease 2",
    "a; update JobId=2",
    "two words",
    "\x15update JobId=2 Priority=1",
    "tab\tJobId=2",
    "x" * 5_000,
    "Priority=1",
    "\u2028release",
]


class Witness:
    """Slurm's side: the program, what it heard, and the adapter's half that talks to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.memory = SlurmMemory(KEY, Overwritten(folder))
        self.control = Control("prof", memory=self.memory)
        self.answers: dict[str, str] = {}
        self.priority_type = "priority/basic"

    def told(self, rows: Sequence[QueueRow], *changes: Change) -> tuple[list[str | list[str]], list[str]]:
        """Make changes; return what scontrol heard, and why changes were refused."""
        (self.folder / "answers").write_text(json.dumps(self.answers))
        (self.folder / "priority").write_text(self.priority_type)
        (self.folder / "heard").write_text("")
        refused = self.control.apply(changes, {row.job.job_id: row for row in rows})
        assert all(isinstance(each, Refusal) for each in refused)
        heard = [json.loads(line) for line in (self.folder / "heard").read_text().splitlines()]
        return heard, [each.why for each in refused]


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Witness:
    program = tmp_path / "scontrol"
    program.write_text(f"#!{sys.executable}\n{WITNESS}")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return Witness(tmp_path)


def row(job_id: str = "17", **changed: object) -> QueueRow:
    fields = {"target": job_id, "comment": JobComment(), "admin_comment": "", **changed}
    name, partition = str(fields.pop("name", "train")), str(fields.pop("partition", "vc1"))
    nice = int(str(fields.pop("nice", 0)))
    job = LiveJob(job_id, partition, "vc1", 1, 1_700_000_000.0, name=name, nice=nice)
    return QueueRow(job, job_id.partition("_")[0], nodes=(), waited_for=(), **fields)  # type: ignore[arg-type]


def mark(stage: MarkStage) -> str:
    return KEY.sealed(SlurmMark("vc1", 1_700_000_000, stage), "17")


J = "update JobId=17"
LINES: dict[str, tuple[Change, dict[str, object], list[str]]] = {
    "a priority": (SetPriority("17", PRIORITIES.most), {}, [f"{J} Priority={PRIORITIES.most}"]),
    "an array's record": (
        SetPriority("17", PRIORITIES.least),
        {"target": "17_[5-9]"},
        [f"update JobId=17_[5-9] Priority={PRIORITIES.least}"],
    ),
    "a node": (RestrictToNode("17", "n1"), {}, [f"{J} ReqNodeList=n1"]),
    "any node": (RestrictToNode("17", None), {}, [f"{J} ReqNodeList="]),
    "later": (StartAfter("17", 30), {}, [f"{J} StartTime=now+30"]),
    "now": (StartAfter("17", 0), {}, [f"{J} StartTime=now"]),
    "advice": (Advise("17", "soon or later"), {}, [f"{J} Comment=lucid:\u00a0soon\u00a0or\u00a0later"]),
    "advice behind words": (
        Advise("17", "soon"),
        {"comment": JobComment("mine")},
        [f"{J} Comment=mine\u00a0|\u00a0lucid:\u00a0soon"],
    ),
    "no advice any more": (
        Advise("17", ""),
        {"comment": JobComment("mine", "", "soon")},
        [f"{J} Comment=mine"],
    ),
    "a move": (
        MoveTo("17", "prof", "vc1"),
        {},
        [f"{J} AdminComment={mark(MarkStage.PROFILING)}", f"{J} Partition=prof"],
    ),
    "a move home": (
        MoveTo("17", "vc1", "vc1"),
        {"partition": "prof", "admin_comment": mark(MarkStage.PROFILING)},
        [f"{J} AdminComment={mark(MarkStage.HOME)}", f"{J} Partition=vc1"],
    ),
    "a run's end": (
        SendHome("17", "vc1", PRIORITIES.least),
        {"partition": "prof"},
        [
            f"{J} AdminComment={mark(MarkStage.PROFILING)}",
            "requeue 17",
            f"{J} Partition=vc1 StartTime=now+3",
            f"{J} AdminComment={mark(MarkStage.HOME)}",
            f"{J} Priority={PRIORITIES.least}",
        ],
    ),
    "its own number back": (ReturnToDefault("17", 4_294_901_758), {}, [f"{J} Priority=4294901758"]),
    "no number known": (
        ReturnToDefault("17"),
        {},
        [f"{J} Priority={PRIORITIES.least}", "release 17"],
    ),
    "a number of ours is none of Slurm's": (
        ReturnToDefault("17", PRIORITIES.most),
        {},
        [f"{J} Priority={PRIORITIES.least}", "release 17"],
    ),
}


@pytest.mark.parametrize("case", list(LINES))
def test_each_change_is_these_lines(slurm: Witness, case: str) -> None:
    change, fields, lines = LINES[case]
    assert slurm.told([row(**fields)], change) == (lines, [])


def test_changes_are_made_in_their_order(slurm: Witness) -> None:
    ids = ["9", "10", "2"]
    changes: list[Change] = [SetPriority(job_id, PRIORITIES.most - at) for at, job_id in enumerate(ids)]
    changes[1:1] = [Advise("2", "soon"), ReturnToDefault("10", 7), StartAfter("9", 0)]
    heard, refused = slurm.told([row(job_id) for job_id in ids], *changes)
    assert heard == [
        f"update JobId=9 Priority={PRIORITIES.most}",
        "update JobId=2 Comment=lucid:\u00a0soon",
        "update JobId=10 Priority=7",
        "update JobId=9 StartTime=now",
        f"update JobId=10 Priority={PRIORITIES.most - 1}",
        f"update JobId=2 Priority={PRIORITIES.most - 2}",
    ]
    assert refused == []


@pytest.mark.parametrize("priority", [PRIORITIES.least - 1, PRIORITIES.most + 1, 0, -1, 2**32])
def test_priorities_that_are_not_ours_to_give_are_refused(slurm: Witness, priority: int) -> None:
    heard, (why,) = slurm.told([row()], SetPriority("17", priority))
    assert heard == []
    assert "is not between" in why


@pytest.mark.parametrize("words", HOSTILE)
def test_no_word_of_a_user_becomes_a_line(slurm: Witness, words: str) -> None:
    # Names, comments and admins' comments are data; what fits no line travels as one argument.
    odd = row(name=words, comment=JobComment(words), admin_comment=words)
    changes = [
        SetPriority("17", PRIORITIES.most),
        Advise("17", "soon"),
        MoveTo("17", "prof", "vc1"),
        SendHome("17", "vc1"),
        Advise("17", ""),
        ReturnToDefault("17", 7),
    ]
    heard, refused = slurm.told([odd], *changes)
    assert refused == []
    comments = [
        line[2] if isinstance(line, list) else line.removeprefix(f"{J} ")
        for line in heard
        if isinstance(line, list) or "Comment=" in line
    ]
    assert len(comments) == 4
    assert all(text.startswith(f"Comment={words}") for text in comments)
    assert [line for line in heard if isinstance(line, str) and "Comment=" not in line] == [
        f"{J} Priority={PRIORITIES.most}",
        f"{J} Partition=prof",
        "requeue 17",
        f"{J} Partition=vc1 StartTime=now+3",
        f"{J} Priority=7",
    ]
    assert all(
        line[:2] == ["update", "JobId=17"] and len(line) == 3 for line in heard if isinstance(line, list)
    )


@pytest.mark.parametrize("name", [*HOSTILE[:6], ""])
def test_a_partition_or_node_that_is_none_is_refused(slurm: Witness, name: str) -> None:
    for change in (MoveTo("17", name, "vc1"), SendHome("17", name), RestrictToNode("17", name or " ")):
        heard, (why,) = slurm.told([row()], change)
        assert heard == [], change
        assert why


def test_a_nice_value_comes_back_from_what_was_written_down_alone(
    slurm: Witness,
) -> None:
    slurm.priority_type = "priority/multifactor"
    heard, _ = slurm.told([row(nice=100)], SetPriority("17", PRIORITIES.most))
    assert heard == [f"{J} Priority={PRIORITIES.most}"]
    assert Overwritten(slurm.folder).of("17") == Before(nice=100)
    forged = row(comment=JobComment("lucid:nice=-10000"))
    back = [f"{J} Priority={PRIORITIES.least}", "release 17"]
    assert slurm.told([forged], ReturnToDefault("17"))[0] == [*back, f"{J} Nice=100"]
    assert slurm.told([forged], ReturnToDefault("17"))[0] == back
    assert Overwritten(slurm.folder).of("17") == Before()


def test_what_cannot_be_written_down_is_not_written_over(
    slurm: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("live_scheduler.memory.records.append_lines", full)
    rows = [row(nice=100, comment=JobComment("mine"), partition="prof")]
    for change in (SetPriority("17", PRIORITIES.most), Advise("17", "soon")):
        heard, (why,) = slurm.told(rows, change)
        assert heard == []
        assert "cannot be written down" in why
    # The way home is open all the same, without a mark where only a comment could hold it.
    slurm.answers = {f"{J} AdminComment=": "Access/permission denied"}
    heard, refused = slurm.told(rows, SendHome("17", "vc1"))
    assert [line for line in heard if "AdminComment" not in line] == [
        "requeue 17",
        f"{J} Partition=vc1 StartTime=now+3",
    ]
    assert refused == []


def test_a_mark_goes_where_this_account_may_write(slurm: Witness) -> None:
    slurm.answers = {f"{J} AdminComment=": "Access/permission denied"}
    heard, refused = slurm.told([row(comment=JobComment("mine"))], MoveTo("17", "prof", "vc1"))
    assert heard[1:] == [f"{J} Comment=mine\u00a0|\u00a0{mark(MarkStage.PROFILING)}", f"{J} Partition=prof"]
    assert refused == []
    assert Overwritten(slurm.folder).of("17") == Before("mine")
    # What a site's own program keeps in an AdminComment is not ours to write over.
    used = row(admin_comment="site: 7 ok")
    fresh = Control("prof", memory=SlurmMemory(KEY))
    slurm.control = fresh
    heard, _ = slurm.told([used], MoveTo("17", "prof", "vc1"))
    assert heard == [f"{J} Comment={mark(MarkStage.PROFILING)}", f"{J} Partition=prof"]


@pytest.mark.parametrize(
    ("refuses", "lines"),
    [
        (f"{J} Priority={PRIORITIES.least}", 1),  # one that is held must not be released
        ("release 17", 2),
    ],
)
def test_a_refusal_ends_what_belongs_together(slurm: Witness, refuses: str, lines: int) -> None:
    slurm.answers = {refuses: "no"}
    heard, refused = slurm.told([row(nice=5)], ReturnToDefault("17"))
    assert len(heard) == lines
    assert refused == ["no"]


def test_the_record_of_what_was_written_over(tmp_path: Path) -> None:
    record, other = Overwritten(tmp_path), Overwritten(tmp_path)
    record.note({"1": Before("a\r\n\u2028", 5), "2": Before("")})
    other.refresh()
    assert (other.of("1"), other.of("2"), other.of("3")) == (Before("a\r\n\u2028", 5), Before(""), Before())
    other.note({"1": Before()})
    record.note({"3": Before(nice=-7)})  # it looks again first
    assert (record.of("1"), record.of("3")) == (Before(), Before(nice=-7))
    path = tmp_path / OVERWRITTEN_FILE
    assert path.stat().st_mode & 0o777 == 0o600
    with path.open("ab") as stream:
        stream.write(b'{"job_id": "4", "comm')  # cut off
    again = Overwritten(tmp_path)
    again.note({"5": Before("x")})
    assert [Overwritten(tmp_path).of(job_id) for job_id in "245"] == [Before(""), Before(), Before("x")]
    again.keep({"5"})  # numbers are given again
    assert again.of("2") == Before()
