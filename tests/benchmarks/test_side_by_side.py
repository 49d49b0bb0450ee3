"""What `make bench` measures with, on small programs: no speed is asserted."""

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.side_by_side.figures import Figure, head, read_starts, rows_of
from benchmarks.side_by_side.measured import CannotBeMeasuredError, run
from benchmarks.side_by_side.peers import Asked, measured_peers
from benchmarks.side_by_side.trees import ROOT, Tree, older_tree

JOBS = """job_id,gpus,submit_time_s,duration_s,first_start_time_s
a,1,0.0,10.0,0.0
b,2,5.0,10.0,25.0
"""
PEER = """#!{python}
import json, sys
if "--version" in sys.argv:
    print("sim-runner 9.9")
else:
    jobs = json.load(open(sys.argv[sys.argv.index("--input") + 1]))
    assert {{"job_id", "submit_ts", "runtime_actual_sec", "requested_cpus"}} == jobs[0].keys()
    with open(sys.argv[sys.argv.index("--output") + 1], "w") as report:
        json.dump({{"metrics": {{"mean_wait_sec": 10.0}}}}, report)
"""


def _python(tmp_path: Path, code: str, **settings: float) -> object:
    return run([sys.executable, "-c", code], folder=tmp_path, environment={"SAID": "hello"}, **settings)


def test_a_run_says_time_memory_and_output_of_the_program_alone(tmp_path: Path) -> None:
    held = bytearray(200 * 2**20)  # ours: not the program's
    small = _python(tmp_path, "import os; print(os.environ['SAID'])")
    large = _python(tmp_path, "bytearray(b'x') * (100 * 2**20); sum(range(10**6))")
    assert len(held) > 100 * 2**20
    assert small.out == "hello\n"
    assert small.cpu_s > 0
    assert small.peak_mib < 100 < large.peak_mib < 200


def test_a_program_that_fails_or_does_not_end_is_not_measured(tmp_path: Path) -> None:
    with pytest.raises(CannotBeMeasuredError, match="exit code 3: no such job"):
        _python(tmp_path, "import sys; print('no such job', file=sys.stderr); sys.exit(3)")
    with pytest.raises(CannotBeMeasuredError, match=r"not done after 0\.5 s"):
        _python(tmp_path, "import time; time.sleep(60)", limit_s=0.5)


def test_an_older_tree_is_there_for_as_long_as_it_is_measured() -> None:
    with older_tree("HEAD") as tree:
        if tree is None:
            pytest.skip("not a checkout of git")
        assert (tree.folder / "simulator" / "engine" / "__init__.py").is_file()
        folder = tree.folder
        said = tree.python("-c", "import simulator; print(simulator.__file__)", folder=folder)
        assert said.out.startswith(str(folder))
    assert not folder.exists()


def test_a_revision_that_is_not_there_leaves_todays_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with older_tree("no-such-revision") as tree:
        assert tree is None
    assert "Nothing is measured beside today's" in capsys.readouterr().err
    assert Tree("today", ROOT).folder.samefile(ROOT)


@given(st.dictionaries(st.text("abc", min_size=1), st.floats(0, 1e6), min_size=1), st.data())
def test_agreement_is_the_share_of_equal_starts(starts: dict[str, float], data: st.DataObject) -> None:
    moved = data.draw(st.sets(st.sampled_from(sorted(starts))))
    theirs = {job: start + (job in moved) for job, start in starts.items()}
    figures = [Figure("today", 1.0, starts=starts), Figure("other", 2.0, starts=theirs)]
    *_, agreement, _ = (cell.strip() for cell in rows_of("x", figures)[1].strip("|").split("|"))
    assert agreement == f"{100 * (1 - len(moved) / len(starts)):.2f}"


def test_a_row_compares_with_todays_time() -> None:
    today = Figure("today", 0.5, peak_mib=100.0, jobs=1_000)
    first, second = rows_of("task", [today, Figure("before", 2.0, remark="slow")])
    assert first == "| task | today | 0.5 | 2,000 | 1.00 | 100 |  |  |"
    assert second == "|  | before | 2 |  | 4.00 |  |  | slow |"
    assert [line.count("|") for line in head()] == [first.count("|")] * 2


def test_a_peer_is_asked_when_a_variable_names_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, program = tmp_path / "jobs.csv", tmp_path / "sim-runner"
    file.write_text(JOBS)
    program.write_text(PEER.format(python=sys.executable))
    program.chmod(0o755)
    assert read_starts(file) == {"a": 0.0, "b": 25.0}
    asked = Asked("week_pool", "fifo", file, tmp_path)
    assert measured_peers(asked, {}) == []
    (found,) = measured_peers(asked, {"HPCOPT": str(program)})
    assert (found.program, found.jobs, found.remark) == ("HPCOpt 9.9", 2, "mean wait as ours")
    assert json.loads((tmp_path / "hpcopt" / "job.json").read_text())[0]["requested_cpus"] == 1
    (named,) = measured_peers(asked, {"HPCOPT": str(program), "HPCOPT_VERSION": "3.0 (2026-07-01)"})
    assert named.program == "HPCOpt 3.0 (2026-07-01)"
    assert measured_peers(Asked("week_pool", "srtf", file, tmp_path), {"HPCOPT": str(program)}) == []
    assert measured_peers(asked, {"ACCASIM": "/bin/false"}) == []  # for a long run, at this size
    nasa = Asked("nasa", "fifo", file, tmp_path)
    assert measured_peers(nasa, {"ACCASIM": "/bin/false"}) == []
    assert "AccaSim on nasa fifo: exit code 1" in capsys.readouterr().err
