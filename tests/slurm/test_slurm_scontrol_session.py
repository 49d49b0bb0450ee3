"""One scontrol told line by line, over programs that behave as scontrol may on a bad day."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from foundation.errors import BadInputError, ServiceUnavailableError
from live_scheduler.adapter import Refusal, SetPriority
from live_scheduler.cluster_state import LiveJob
from live_scheduler.slurm.control import PRIORITIES, Control
from live_scheduler.slurm.queue_reading import QueueRow
from live_scheduler.slurm.scontrol_session import GIVEN_UP, ScontrolSession
from live_scheduler.slurm.slurm_memory import JobComment

# Complains about what is no command as scontrol does; `say WORDS` stands for a complaint about a change, and
# its slurmctld answers.
TALKATIVE = """
if sys.argv[1:] == ["ping"]:
    sys.exit("Slurmctld(primary) at here is UP")
for line in sys.stdin:
    verb, _, words = line.strip().partition(" ")
    print("scontrol: " + line, end="")
    if verb == "say":
        print(words, file=sys.stderr, flush=True)
    elif verb != "update":
        print("invalid keyword: " + verb, file=sys.stderr, flush=True)
"""

Program = Callable[[str], Path]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Puts a Python text in scontrol's place."""

    def install(text: str) -> Path:
        path = tmp_path / "scontrol"
        path.write_text(f"#!{sys.executable}\nimport sys, time\n{text}")
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        return path

    return install


def alive(path: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if str(path) in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def test_each_line_gets_its_own_words(program: Program) -> None:
    path = program(TALKATIVE)
    lines = [f"say no {at}" if at % 3 == 1 else "update JobId=1" for at in range(500)]
    with ScontrolSession(30.0) as session:
        assert session.tell(lines) == [f"no {at}" if at % 3 == 1 else "" for at in range(500)]
        assert session.tell([]) == []
        assert session.tell(["say \u00fc", "update", "say a  b"]) == ["\u00fc", "", "a b"]
    assert alive(path) == []


def test_a_line_may_be_long_and_its_answer_too(program: Program) -> None:
    program(TALKATIVE)
    words = "x" * 200_000
    with ScontrolSession(30.0) as session:
        assert session.tell([f"say {words}"] * 3) == [words] * 3


def test_one_that_does_not_answer_in_time_is_ended(program: Program) -> None:
    path = program("time.sleep(600)\n")
    with (
        pytest.raises(ServiceUnavailableError, match=r"not done within 0\.5 s"),
        ScontrolSession(0.5) as session,
    ):
        session.tell(["update JobId=1"])
    assert alive(path) == []


@pytest.mark.parametrize("text", ["", "sys.exit('no configuration')\n", "sys.stdin.readline()\n"])
def test_one_that_ends_by_itself_did_not_do_it(program: Program, text: str) -> None:
    program(text)
    with pytest.raises(ServiceUnavailableError, match="ended by itself"), ScontrolSession(30.0) as session:
        session.tell(["update JobId=1"] * 2_000)


@pytest.mark.parametrize(
    ("words", "state"),
    [
        ("Unable to contact slurm controller (connect failure)", "UP"),
        ("Unexpected message received for job 1", "DOWN"),
    ],
)
def test_a_controller_that_is_away_ends_it_at_the_first_line(
    program: Program, words: str, state: str
) -> None:
    program(TALKATIVE.replace("is UP", f"is {state}"))
    with pytest.raises(ServiceUnavailableError, match="did not answer"), ScontrolSession(30.0) as session:
        session.tell([f"say {words}", "update JobId=1"])


def test_it_does_not_wait_for_many_jobs_that_cannot_be_changed_now(program: Program) -> None:
    path = program(TALKATIVE)
    words = "Unexpected message received for job 1"
    with ScontrolSession(30.0) as session:
        assert session.tell(["update JobId=1", f"say {words}", "say no"]) == ["", words, "no"]
        lines = ["update JobId=1", f"say {words}", *["say no"] * 100]
        assert session.tell(lines) == ["", words, *[GIVEN_UP] * 100]
        assert session.tell(["say no"]) == [GIVEN_UP]
    assert alive(path) == []


def test_without_slurms_programs_the_error_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadInputError, match="PATH"):
        ScontrolSession(1.0)


# Writes down what it is told; says of the jobs that the file `stuck` names that they cannot be changed now.
FORGETFUL = """
import pathlib, re
if sys.argv[1:] == ["ping"]:
    sys.exit("Slurmctld(primary) at here is UP")
folder = pathlib.Path(sys.argv[0]).parent
for line in sys.stdin:
    if not line.startswith("update"):
        print("invalid keyword: " + line.strip(), file=sys.stderr, flush=True)
        continue
    job = re.search(r"JobId=(\\d+)", line)[1]
    with (folder / "told").open("a") as told:
        told.write(job + "\\n")
    if job in (folder / "stuck").read_text().split():
        print("Unexpected message received for job " + job, file=sys.stderr, flush=True)
"""


@pytest.mark.slow
def test_a_job_that_cannot_be_changed_now_is_asked_for_less_and_less(program: Program) -> None:
    folder = program(FORGETFUL).parent
    (folder / "stuck").write_text("2")
    now_s = 0.0
    control = Control(clock=lambda: now_s)
    rows = {
        job_id: QueueRow(LiveJob(job_id, "vc1", "vc1", 1, 0.0), job_id, job_id, JobComment(), "", (), ())
        for job_id in ("1", "2", "3")
    }
    changes = [SetPriority(job_id, PRIORITIES.most) for job_id in rows]
    refused = [Refusal(changes[1], "Unexpected message received for job 2")]

    def told_at(at_s: float, refusals: list[Refusal]) -> str:
        nonlocal now_s
        now_s = at_s
        (folder / "told").write_text("")
        assert control.apply(changes, rows) == refusals
        return "".join((folder / "told").read_text().split())

    found = [told_at(float(at_s), refused) for at_s in range(40)]
    assert found == ["123" if at_s in (0, 5, 15, 35) else "13" for at_s in range(40)]
    (folder / "stuck").write_text("")
    assert told_at(80.0, []) == told_at(81.0, []) == "123"
    (folder / "stuck").write_text("2")
    assert [told_at(float(at_s), refused) for at_s in range(90, 96)] == ["123", *["13"] * 4, "123"]
