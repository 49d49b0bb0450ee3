"""What squeue and comments say, read without a Slurm: odd records, words of users."""

import dataclasses
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_logs.slurm_mark import MarkKey, MarkStage, SlurmMark
from cluster_logs.slurm_words import home_partition
from foundation.errors import BadInputError, ServiceUnavailableError
from live_scheduler.cluster_state import LiveJob
from live_scheduler.slurm import adapter, queue_reading
from live_scheduler.slurm.adapter import as_of_now
from live_scheduler.slurm.node_reading import NodeKind, parse_nodes
from live_scheduler.slurm.queue_reading import QUEUE_FIELDS, QueueReader, QueueRow, count_tasks, time_s
from live_scheduler.slurm.scontrol_session import fits_a_line
from live_scheduler.slurm.slurm_memory import Before, JobComment, Overwritten, SlurmMemory
from tests.evidence import Evidence

PLAIN = dict.fromkeys(QUEUE_FIELDS, "(null)") | {
    "JobID": "17",
    "ArrayJobID": "17",
    "ArrayTaskID": "N/A",
    "HetJobID": "N/A",
    "HetJobOffset": "N/A",
    "State": "PENDING",
    "UserName": "ada",
    "Partition": "vc1",
    "PriorityLong": "4294901750",
    "Nice": "0",
    "Reason": "Priority",
    "Dependency": "(null)",
    "SubmitTime": "1700000000",
    "StartTime": "1700000500",
    "EligibleTime": "1700000000",
    "TimeLimit": "1-00:00:00",
    "NumCPUs": "4",
    "NumNodes": "1",
    "NumTasks": "1",
    "tres-alloc": "cpu=4,mem=4000M,node=1,billing=4,gres/gpu=2",
    "tres-per-job": "N/A",
    "tres-per-node": "gres:gpu:2",
    "tres-per-task": "N/A",
    "OverSubscribe": "OK",
    "Requeue": "1",
    "RestartCnt": "0",
    "NodeList": "",
    "ReqNodes": "",
    "Name": "train",
    "Comment": "(null)",
    "admin_comment": "",
    "EndTime": "N/A",
    "Reservation": "(null)",
}


KEY = MarkKey("c", b"a secret of tests")


def memory(**before: str) -> SlurmMemory:
    """A memory with KEY, and what the users' comments were before ours was put behind them."""
    overwritten = Overwritten(None)
    overwritten.note({job_id.strip("_"): Before(words) for job_id, words in before.items()})
    return SlurmMemory(KEY, overwritten)


def row(
    kinds: dict[str, NodeKind] | None = None, known: SlurmMemory | None = None, **changed: str
) -> QueueRow:
    """The row of a waiting job with some fields changed (`_` stands for `-` in their names)."""
    values = PLAIN | {name.replace("_", "-") if "tres" in name else name: v for name, v in changed.items()}
    assert set(values) == set(QUEUE_FIELDS)
    reader = QueueReader(known or memory())
    return reader.parse([[values[name] for name in QUEUE_FIELDS]], kinds or {})[0]


def job(**changed: str) -> LiveJob:
    return row(**changed).job


def test_a_waiting_job() -> None:
    assert job() == LiveJob(
        job_id="17",
        partition="vc1",
        virtual_cluster="vc1",
        gpus=2,
        submit_time_s=1_700_000_000.0,
        user="ada",
        name="train",
        cpus=4,
        nodes=1,
        time_limit_s=86_400.0,
        priority=4_294_901_750,
        reason="Priority",
        other_facts={"queue": "vc1", "requested_memory_mib": 4_000.0},
    )


def test_facts_beyond_the_fields_of_a_job_are_read_by_their_columns() -> None:
    told = job(Account="physics", GroupName="users", QOS="normal")
    own = {"account": "physics", "group": "users", "qos": "normal"}
    assert told.other_facts == own | {"queue": "vc1", "requested_memory_mib": 4_000.0}
    assert told.facts()["account"] == "physics"


@pytest.mark.parametrize(
    ("changed", "memory_mib", "gpu_type"),
    [
        ({"tres_alloc": "cpu=4,mem=2.5G,node=1,gres/gpu=2,gres/gpu:V100=2"}, 2_560.0, "v100"),
        ({"tres_per_node": "gres:gpu:a100:2", "tres_alloc": "cpu=4,mem=100G"}, 102_400.0, "a100"),
        ({"tres_per_job": "gres/gpu:h100=2,gres/shard:1", "tres_alloc": "cpu=4"}, None, "h100"),
        # What it was given is not what it asked for.
        ({"State": "RUNNING", "tres_alloc": "mem=1T,gres/gpu:v100=2"}, 1_048_576.0, None),
        ({"tres_alloc": "cpu=4,mem=0,node=1,gres/gpu=2"}, None, None),
        ({"tres_alloc": "mem=lots", "tres_per_node": "gres:gpu:0"}, None, None),
        ({"tres_per_node": "gres:mps:a100:50", "tres_alloc": "cpu=4,gres/mps=50"}, None, "a100"),
    ],
)
def test_memory_and_gpu_type_that_a_job_asked_for(
    changed: dict[str, str], memory_mib: float | None, gpu_type: str | None
) -> None:
    facts = job(**changed).facts()
    assert (facts.get("requested_memory_mib"), facts.get("gpu_type")) == (memory_mib, gpu_type)


@pytest.mark.parametrize(
    ("tres", "per_job", "per_node", "per_task", "gpus", "shares"),
    [
        ("cpu=1,node=2,gres/gpu:a100=8,gres/gpu=8", "N/A", "gres:gpu:a100:4", "N/A", 8, False),
        # AccountingStorageTRES without gres/gpu
        ("cpu=1,node=2", "N/A", "gres:gpu:a100:4", "N/A", 8, False),
        ("cpu=1,node=2", "gres:gpu:3", "N/A", "N/A", 3, False),
        ("cpu=1,node=2", "gres/gpu:3", "N/A", "N/A", 3, False),
        ("cpu=1,node=2", "N/A", "N/A", "gres/gpu:h100:1", 6, False),
        ("cpu=1,node=2", "gres:gpu:a:1,gres:gpu:b:2", "N/A", "N/A", 3, False),
        ("cpu=1,node=2", "N/A", "gres:gpu", "N/A", 2, False),
        ("cpu=1,node=2", "N/A", "gres:craynetwork:2", "N/A", 0, False),
        ("cpu=1,node=2,gres/shard=6", "N/A", "gres:shard:3", "N/A", 2, True),
        ("cpu=1,node=2", "N/A", "gres:shard:3", "N/A", 2, True),
        ("cpu=1,node=2,gres/mps=50", "N/A", "gres:mps:25", "N/A", 2, True),
        ("cpu=1,node=2", "N/A", "gres:mps:a100:25", "N/A", 2, True),
        ("cpu=1,node=2", "gres:gpu:4", "gres:gpu:2", "N/A", 4, False),
        # Slices of GPUs (MIG), which Slurm counts as GPUs, with and without their type in accounting.
        ("node=1,gres/gpu=7,gres/gpu:1g.5gb=7", "N/A", "gres:gpu:1g.5gb:7", "N/A", 1, True),
        ("node=1,gres/gpu=7", "N/A", "gres:gpu:1g.5gb:7", "N/A", 1, True),
        ("node=2,gres/gpu=2", "N/A", "gres:gpu:a100_3g.20gb:1", "N/A", 2, True),
        ("", "N/A", "N/A", "N/A", 0, False),
    ],
)
def test_gpus(tres: str, per_job: str, per_node: str, per_task: str, gpus: int, shares: bool) -> None:
    got = job(
        tres_alloc=tres,
        tres_per_job=per_job,
        tres_per_node=per_node,
        tres_per_task=per_task,
        NumNodes="2",
        NumTasks="6",
    )
    assert (got.gpus, got.shares_gpus) == (gpus, shares)


def test_jobs_that_count_as_whole_gpus_are_told_once_a_kind(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked = ["gres/mps=50", "gres/mps=25", "gres/shard=1", "gres/gpu=2"]
    queue = [
        [(PLAIN | {"JobID": str(at), "tres-alloc": f"node=1,{tres}"})[name] for name in QUEUE_FIELDS]
        for at, tres in enumerate(asked)
    ]
    monkeypatch.setattr(adapter, "cluster_now_s", lambda _: 1_700_000_000.0)
    monkeypatch.setattr(adapter, "read_nodes", lambda _: parse_nodes([]))
    monkeypatch.setattr(QueueReader, "read", lambda self, kinds, _: self.parse(queue, kinds))
    slurm = adapter.SlurmAdapter()
    with caplog.at_level("INFO", "lucid.live"):
        slurm.read()
        slurm.read()
    assert caplog.messages == ["3 jobs share GPUs and are counted as whole ones: mps 2, shard 1"]


def test_a_job_that_wants_its_nodes_for_itself_gets_all_of_them() -> None:
    kinds = {"vc1": NodeKind(8, 96)}
    alone = row(kinds, OverSubscribe="NO", tres_alloc="cpu=4,node=2,gres/gpu=2").job
    assert (alone.gpus, alone.cpus) == (16, 192)
    elsewhere = row(kinds, OverSubscribe="NO", Partition="mixed").job
    assert (elsewhere.gpus, elsewhere.cpus) == (2, 4)


@pytest.mark.parametrize(
    ("changed", "held"),
    [
        ({"PriorityLong": "0", "Reason": "JobHeldUser"}, True),
        ({"PriorityLong": "0", "Reason": "JobHeldAdmin"}, True),
        ({"Reason": "JobHoldMaxRequeue"}, True),
        ({"Reason": "launch_failed_requeued_held"}, True),
        ({"State": "REQUEUE_HOLD", "Reason": "job requeued in held state"}, True),
        ({"State": "SPECIAL_EXIT"}, True),
        ({"Reason": "Priority"}, False),
        ({"Reason": "QOSUsageThreshold"}, False),
        ({"State": "RUNNING", "PriorityLong": "0", "NodeList": "n1"}, False),
    ],
)
def test_holds(changed: dict[str, str], held: bool) -> None:
    assert job(**changed).held is held


@pytest.mark.parametrize(
    ("changed", "waits_for"),
    [
        ({"Reason": "None"}, ""),
        ({"Reason": "Resources"}, ""),
        ({"Reason": "ReqNodeNotAvail, May be reserved for other job"}, ""),
        (
            {
                "Reason": "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority"
                " partitions"
            },
            "",
        ),
        ({"Reason": "ANewReasonOfLaterVersions"}, ""),
        # The dependency is known before Slurm has looked at the job.
        ({"Reason": "None", "Dependency": "afterok:16(unfulfilled)"}, "Dependency"),
        *(
            ({"Reason": reason}, reason)
            for reason in (
                "BeginTime",
                "Reservation",
                "ReqNodeNotAvail, Reserved for maintenance",
                "ReqNodeNotAvail, UnavailableNodes:n3",
                "Licenses",
                "AssocGrpGRES",
                "QOSMaxJobsPerUserLimit",
                "PartitionDown",
                "PartitionTimeLimit",
                "JobArrayTaskLimit",
                "BadConstraints",
                "InvalidQOS",
            )
        ),
    ],
)
def test_what_a_job_waits_for(changed: dict[str, str], waits_for: str) -> None:
    assert job(**changed).waits_for == waits_for


def test_an_array_that_waits_is_one_record() -> None:
    waiting = row(ArrayTaskID="5-9%2")
    assert (waiting.job.job_id, waiting.job.tasks, waiting.target) == ("17", 5, "17_[5-9]")
    assert not waiting.job.requeueable
    running = row(JobID="21", ArrayTaskID="4", State="RUNNING", NodeList="n1")
    assert (running.job.job_id, running.job.tasks, running.target) == ("17_4", 1, "17_4")
    # The last task keeps the array's number; requeued, it is still that task.
    again = row(ArrayTaskID="9", RestartCnt="1")
    assert (again.job.job_id, again.job.tasks, again.target) == ("17_9", 1, "17_9")
    last = row(ArrayTaskID="9")
    assert (last.job.job_id, last.job.tasks, last.target) == ("17", 1, "17_[9]")


def test_tasks_that_were_changed_alone_are_told_apart_by_a_line_a_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As Slurm 22.05 and 24.11 answer: one line for all ten; with --array one a task, with its JobID."""
    apart = {"3": {"JobID": "13", "Nice": "50"}, "5": {"JobID": "14", "TimeLimit": "17:00"}}
    array = {"JobID": "12", "ArrayJobID": "12", "Nice": "7"}
    own = {"JobID": "15", "ArrayTaskID": "N/A", "ArrayJobID": "15"}
    tasks = [{**array, "ArrayTaskID": str(at), **apart.get(str(at), {})} for at in range(1, 11)]
    asked = []

    def answer(command: list[str], **_: object) -> str:
        asked.append(command[3:])
        if any("admin_comment" in word for word in command):  # 24.11 calls it AdminComment
            raise BadInputError("Slurm refused squeue: Invalid job format specification: admin_comment.")
        if len(queue_reading.SQUEUE) == len(command):
            return written([{**array, "ArrayTaskID": "1-10"}, own])
        if any(word.startswith("--jobs") for word in command):
            return written(tasks)
        lines = [(task["ArrayJobID"], task["JobID"], "PENDING") for task in (*tasks, own)]
        return "".join("|".join(line) + "|\n" for line in lines)

    monkeypatch.setattr(queue_reading, "call", answer)
    rows = {each.job.job_id: each for each in QueueReader().read({}, 1.0)}
    assert {job_id: (each.raw_id, each.job.tasks, each.job.nice) for job_id, each in rows.items()} == {
        "15": ("15", 1, 0),
        "12": ("12", 8, 7),
        "12_3": ("13", 1, 50),
        "12_5": ("14", 1, 7),
    }
    assert rows["12"].target == "12_[1,2,4,6,7,8,9,10]"
    assert (rows["12"].job.time_limit_s, rows["12_5"].job.time_limit_s) == (86_400.0, 1_020.0)
    assert asked[-1][-1] == "--jobs=12"


def written(jobs: list[dict[str, str]]) -> str:
    """Jobs as squeue writes their records."""
    values = [[(PLAIN | job)[name] for name in QUEUE_FIELDS] for job in jobs]
    field_end, record_end = queue_reading.FIELD_END, queue_reading.RECORD_END
    return "".join(field_end.join(each) + record_end for each in values)


@given(st.sets(st.integers(0, 400), min_size=1))
def test_tasks_are_counted_as_slurm_writes_them(tasks: set[int]) -> None:
    written = written_as_slurm_does(sorted(tasks))
    assert count_tasks(f"{written}%7") == count_tasks(written) == len(tasks)


def written_as_slurm_does(tasks: list[int]) -> str:
    """Slurm's bit strings: spans, and steps for regular ones."""
    if len(tasks) > 2 and len({b - a for a, b in itertools.pairwise(tasks)}) == 1:
        step = tasks[1] - tasks[0]
        return f"{tasks[0]}-{tasks[-1]}" + (f":{step}" if step > 1 else "")
    spans: list[list[int]] = []
    for task in tasks:
        if spans and spans[-1][-1] == task - 1:
            spans[-1].append(task)
        else:
            spans.append([task])
    return ",".join(str(span[0]) if len(span) == 1 else f"{span[0]}-{span[-1]}" for span in spans)


@pytest.mark.parametrize(
    ("listed", "existing", "home"),
    [
        ("vc1", (), "vc1"),
        ("vc1,vc2", (), "vc1"),
        ("gone,vc2,vc1", ("vc1", "vc2"), "vc2"),
        ("gone,away", ("vc1",), "gone"),
        ("", ("vc1",), ""),
    ],
)
def test_a_job_that_may_run_in_several_partitions_belongs_to_the_first_that_exists(
    listed: str, existing: tuple[str, ...], home: str
) -> None:
    assert home_partition(listed, existing) == home


def test_components_of_a_heterogeneous_job_are_changed_one_by_one() -> None:
    first = row(HetJobID="17", HetJobOffset="0")
    second = row(JobID="18", HetJobID="17", HetJobOffset="1")
    assert [each.job.job_id for each in (first, second)] == ["17+0", "17+1"]
    assert [each.target for each in (first, second)] == ["17+0", "17+1"]


def test_where_a_run_holds_its_gpus() -> None:
    running = job(
        State="RUNNING",
        NodeList="n[1-3,05]",
        NumNodes="4",
        tres_alloc="cpu=4,gres/gpu=9",
        StartTime="1700000500",
    )
    assert running.gpus_on == (("n1", 3), ("n2", 2), ("n3", 2), ("n05", 2))
    assert running.start_time_s == 1_700_000_500.0


@pytest.mark.parametrize(
    ("limit", "seconds"),
    [
        ("UNLIMITED", None),
        ("NOT_SET", None),
        ("365-00:00:00", None),  # what Slurm sets at the start of a job without a limit
        ("30:00", 1800.0),
        ("1:00:00", 3600.0),
        ("2-12:00:00", 216_000.0),
    ],
)
def test_time_limits(limit: str, seconds: float | None) -> None:
    assert job(TimeLimit=limit).time_limit_s == seconds


def test_times_are_utc_in_whatever_form() -> None:
    assert time_s("1700000000") == time_s("2023-11-14T22:13:20") == 1_700_000_000.0
    assert [time_s(word) for word in ("Unknown", "N/A", "None", "")] == [None] * 4


def test_a_begin_time_is_one_after_the_submission() -> None:
    assert job(EligibleTime="1700003600").begin_time_s == 1_700_003_600.0
    assert job().begin_time_s is None
    assert job(EligibleTime="N/A").begin_time_s is None


def test_a_marked_job_belongs_to_its_home() -> None:
    mark = KEY.sealed(SlurmMark("vc2", 1_600_000_000, MarkStage.PROFILING), "17")
    commented = JobComment("my words", mark, "soon").to_text()
    by_admin = job(Partition="prof", admin_comment=mark)
    by_comment = row(None, memory(_17="my words"), Partition="prof", Comment=commented).job
    for each in (by_admin, by_comment):
        assert (each.partition, each.virtual_cluster) == ("prof", "vc2")
        assert (each.submit_time_s, each.mark) == (1_600_000_000.0, mark)
    assert (by_comment.comment, by_comment.advice) == ("my words", "soon")


MARKS = st.builds(
    lambda home, submitted, stage, seal, spaces: (
        f"{spaces}lucid:home={home},submitted={submitted},stage={stage}{seal}"
    ),
    st.sampled_from(["vc1", "vip", "prof", ""]),
    st.sampled_from(["1", "0", "-1", "1700000000", "9" * 23, "9" * 5_000, "\u0662", "x"]),
    st.sampled_from(["home", "profiling", "gone", ""]),
    st.sampled_from(
        ["", f",seal={'0' * 32}", ",seal=", KEY.sealed(SlurmMark("vip", 1, MarkStage.HOME), "18")[-38:]]
    ),
    st.sampled_from(["", "mine\u00a0|\u00a0", "\t", "\n"]),
)
OF_USERS = st.one_of(
    MARKS,
    st.builds("{}\u00a0|\u00a0lucid:\u00a0{}".format, MARKS, MARKS),
    st.sampled_from(
        ["lucid:nice=-10000", "None", "a\r\n", "\u00a0|\u00a0lucid:nice=-10000", "lucid:\u00a0soon"]
    ),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=60),
)


@given(text=OF_USERS, partition=st.sampled_from(["vc1", "prof"]), advised=st.booleans())
def test_whatever_a_user_writes_changes_nothing_but_its_own_comment(
    text: str, partition: str, advised: bool
) -> None:
    known = memory(_17=text) if advised else memory()
    shown = JobComment(text, "", "soon").to_text() if advised else text
    plain = row(Partition=partition)
    found = row(None, known, Partition=partition, Comment=shown)
    said = JobComment(text, "", "soon" if advised else "")
    if text != "(null)":  # squeue's own word for none
        assert found.comment == said
    ours = {"comment": found.job.comment, "advice": found.job.advice}
    assert found.job == dataclasses.replace(plain.job, **ours)
    assert dataclasses.replace(found, job=plain.job, comment=plain.comment) == plain


@pytest.mark.evidence(table="faults", rows=("19",))
def test_a_mark_that_was_copied_from_another_job_is_none(evidence: Evidence) -> None:
    mark = KEY.sealed(SlurmMark("vip", 1, MarkStage.HOME), "18")
    assert job(JobID="18", Comment=mark).virtual_cluster == "vip"
    assert job(Comment=mark) == dataclasses.replace(job(), comment=mark)
    elsewhere = MarkKey("other", KEY.secret).sealed(SlurmMark("vip", 1, MarkStage.HOME), "17")
    assert job(Comment=elsewhere).virtual_cluster == "vc1"
    # One of another hides none that is the job's own.
    own = KEY.sealed(SlurmMark("vc2", 1, MarkStage.HOME), "17")
    assert job(admin_comment=own, Comment=mark).virtual_cluster == "vc2"
    assert job(Comment=f"{mark} {own}").virtual_cluster == "vc2"
    evidence("faults", "19", "A mark that was copied from another job is that user's text.")


def test_a_task_that_left_its_array_brings_the_arrays_words() -> None:
    shown = JobComment("mine", "", "soon").to_text()
    known = memory(_16="mine")
    task = row(None, known, JobID="17", ArrayJobID="16", ArrayTaskID="3", Comment=shown)
    assert (task.comment.words, task.comment.advice) == ("mine", "soon")


def test_a_record_that_did_not_change_is_not_parsed_again() -> None:
    reader = QueueReader()
    record = [PLAIN[name] for name in QUEUE_FIELDS]
    guess = [*record]
    guess[QUEUE_FIELDS.index("StartTime")] = "1700009999"
    first = reader.parse([record], {})[0]
    assert reader.parse([guess], {})[0] is first
    guess[QUEUE_FIELDS.index("PriorityLong")] = "7"
    assert reader.parse([guess], {})[0].job.priority == 7


@pytest.mark.parametrize("text", ["", "17", "17\x1f18\n"])
def test_an_answer_that_broke_off_is_no_empty_queue(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_reading, "call", lambda *_, **__: text)
    if not text:
        assert QueueReader().read({}, 1.0) == []
    else:
        with pytest.raises(ServiceUnavailableError, match="broke off"):
            QueueReader().read({}, 1.0)


@pytest.mark.parametrize(
    ("changed", "at_s", "waits_for"),
    [
        ({"Reason": "Priority"}, 1_700_000_100.0, ""),
        ({"Reason": "Priority", "EligibleTime": "1700003600"}, 1_700_000_100.0, "BeginTime"),
        ({"Reason": "BeginTime", "EligibleTime": "1700003600"}, 1_700_003_599.0, "BeginTime"),
        ({"Reason": "BeginTime", "EligibleTime": "1700003600"}, 1_700_003_600.0, ""),
        ({"Reason": "BeginTime"}, 1_700_000_100.0, ""),
        ({"Reason": "Licenses", "EligibleTime": "1700003600"}, 1_700_000_100.0, "Licenses"),
        ({"Reason": "ReqNodeNotAvail, UnavailableNodes:n[7-8]"}, 1_700_000_100.0, ""),
        (
            {"Reason": "ReqNodeNotAvail, UnavailableNodes:n8"},
            1_700_000_100.0,
            "ReqNodeNotAvail, UnavailableNodes:n8",
        ),
        (
            {"Reason": "None", "Dependency": "afterok:1(unfulfilled)", "EligibleTime": "N/A"},
            1_700_000_100.0,
            "Dependency",
        ),
    ],
)
def test_reasons_of_an_earlier_look_at_a_job(changed: dict[str, str], at_s: float, waits_for: str) -> None:
    assert as_of_now(row(**changed), at_s, {"n7"}).job.waits_for == waits_for


def test_a_squeue_that_calls_a_field_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def answer(command: list[str], **_: object) -> str:
        asked.append(command)
        if any("admin_comment" in word for word in command):
            raise BadInputError("Slurm refused squeue: Invalid job format specification: admin_comment.")
        return ""

    monkeypatch.setattr(queue_reading, "call", answer)
    assert QueueReader().read({}, 1.0) == []
    assert any("AdminComment:0" in word for word in asked[-1])


# Comments

WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=60)


def no_mark(_: str) -> bool:
    return False


@given(words=st.one_of(WORDS, OF_USERS), text=WORDS, again=WORDS, marked=st.booleans())
def test_the_words_of_a_user_stay_as_they_are(words: str, text: str, again: str, marked: bool) -> None:
    mark = KEY.sealed(SlurmMark("vc1", 1_700_000_000, MarkStage.HOME), "17") if marked else ""

    def read(comment: JobComment) -> JobComment:
        return JobComment.parse(comment.to_text(), words, mark.__eq__)

    comment = JobComment(words, mark)
    for each in (text, again, ""):
        comment = read(dataclasses.replace(comment, advice=each))
        assert comment == JobComment(words, mark, " ".join(each.split()))
    assert dataclasses.replace(comment, mark="").to_text() == words


@given(words=st.one_of(WORDS, OF_USERS), later=st.one_of(WORDS, OF_USERS))
def test_a_comment_that_its_user_writes_anew_is_its_users(words: str, later: str) -> None:
    if later.startswith(words) and "lucid:" in later:  # behind the very same words the very same marker
        return
    assert JobComment.parse(later, words, no_mark) == JobComment(later)
    assert JobComment.parse(later, None, no_mark) == JobComment(later)


@given(WORDS)
def test_what_we_write_beside_plain_words_fits_a_line(text: str) -> None:
    assert fits_a_line(JobComment("", "", "".join(c for c in text if c.isprintable())).to_text())


@pytest.mark.parametrize("value", ["two words", "tab\t", "line\n", "\x15", "\x7f", "\x85", "x" * 5000])
def test_what_does_not_fit_a_line(value: str) -> None:
    assert not fits_a_line(value)
