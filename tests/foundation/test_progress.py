"""What people see of long work: on a terminal one line, in a log a few whole lines."""

import io

import pytest

from foundation.progress import Work, clock_time, lines, reporting


class Clock:
    def __init__(self):
        self.now_s = 100.0

    def __call__(self):
        return self.now_s


class Terminal(io.StringIO):
    def isatty(self):
        return True


def run(progress, clock, what, total, *, seconds, step_s=0.125):
    """Work at a steady pace, from nothing to all of it."""
    steps = round(seconds / step_s)
    for step in range(steps + 1):
        progress(total * step // steps if total else step, total, what)
        clock.now_s += step_s if step < steps else 0.0


def test_a_log_gets_few_whole_lines_with_rate_and_eta():
    clock, log = Clock(), io.StringIO()
    with reporting(log, clock=clock) as progress:
        run(progress, clock, Work("fifo (1 of 2)", "jobs"), 100_000, seconds=100)
    said = log.getvalue()
    assert "\r" not in said
    assert "\x1b" not in said
    written = said.splitlines()
    assert written[0] == "fifo (1 of 2): 5,000 of 100,000 jobs (5 %), 1,000 jobs/s, ETA 1:35"
    assert written[-1] == "fifo (1 of 2): 100,000 jobs, 1,000 jobs/s, 1:40"
    assert 3 <= len(written) <= 8


def test_quick_work_leaves_a_log_empty():
    clock, log = Clock(), io.StringIO()
    with reporting(log, clock=clock) as progress:
        for i in range(16):
            run(progress, clock, f"day {i}", 10, seconds=0.25)
    assert log.getvalue() == ""


def test_a_log_of_many_hours_stays_short():
    clock, log = Clock(), io.StringIO()
    with reporting(log, clock=clock) as progress:
        run(progress, clock, "rows", 10**6, seconds=10 * 3600, step_s=1)
    assert len(log.getvalue().splitlines()) <= 10 * 60 + 10


def test_the_rate_is_that_of_the_last_seconds():
    clock, said = Clock(), []
    progress = lines(said.append, clock=clock)
    what = Work("lucid", "jobs")
    done = 0
    for second in range(120):
        done += 1_000 if second < 60 else 100
        clock.now_s += 1
        progress(done, 200_000, what)
    fast, slow = said[1], said[-1]
    assert ", 1,000 jobs/s" in fast
    assert ", 100 jobs/s" in slow


def test_a_terminal_shows_one_line_that_is_written_over():
    clock, terminal = Clock(), Terminal()
    with reporting(terminal, clock=clock) as progress:
        run(progress, clock, Work("fifo (1 of 2)", "jobs"), 3_000, seconds=3)
        run(progress, clock, Work("sjf (2 of 2)", "jobs"), 3_000, seconds=0.5)
    said = terminal.getvalue()
    # What stands after the last carriage return of each line is what remains on the screen.
    screen = [line.split("\x1b[2K")[-1] for line in said.split("\n")]
    assert screen == ["fifo (1 of 2): 3,000 jobs, 1,000 jobs/s, 0:03", ""]
    assert said.count("\r") <= 3.5 / 0.1 + 3
    assert ", ETA 0:0" in said


def test_a_terminal_line_never_wraps(monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    clock, terminal = Clock(), Terminal()
    with reporting(terminal, clock=clock) as progress:
        run(progress, clock, "x" * 100, 10, seconds=0.5)
    assert max(len(part) for part in terminal.getvalue().split("\r\x1b[2K")) < 30


def test_bytes_are_shown_in_megabytes():
    clock, said = Clock(), []
    progress = lines(said.append, clock=clock)
    run(progress, clock, Work("reading a.csv", "bytes"), 400_000_000, seconds=20)
    assert said[0] == "reading a.csv: 100 of 400 MB (25 %), 20 MB/s, ETA 0:15"


def test_work_of_unknown_size_has_no_eta():
    clock, said = Clock(), []
    progress = lines(said.append, clock=clock)
    run(progress, clock, "reading", None, seconds=30)
    assert said
    assert not any("ETA" in line or "%" in line for line in said)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (760, "12:40"), (11_220, "3:07:00")]
)
def test_durations_as_a_clock_shows_them(seconds, text):
    assert clock_time(seconds) == text


def test_pieces_of_work_that_go_on_at_once_keep_their_own_pace():
    clock, said = Clock(), []
    progress = lines(said.append, clock=clock)
    for second in range(1, 61):
        clock.now_s += 1
        progress(second * 100, 6_000, Work("a", "jobs"))
        progress(second * 10, 600, Work("b", "jobs"))
    finals = [line for line in said if "0:59" in line]
    assert finals == ["a: 6,000 jobs, 100 jobs/s, 0:59", "b: 600 jobs, 10 jobs/s, 0:59"]
