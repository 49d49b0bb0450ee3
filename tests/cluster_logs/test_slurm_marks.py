"""Marks in accounting: what the live scheduler sealed is believed, and nothing else is."""

import json
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_logs.ingest import IngestReport, IngestSettings, ingest_log, read_jobs_file
from cluster_logs.lake import Lake
from cluster_logs.slurm_mark import (
    MARK_KEY_FILE,
    MarkKey,
    MarkStage,
    SlurmMark,
    make_mark_key,
    read_mark_key,
    texts_like_marks,
)
from cluster_logs.slurm_words import UNIT_SEPARATOR
from foundation.errors import BadInputError, NotFoundError
from pipeline.ingest.ingestion import mark_key_of
from tests.evidence import Evidence

KEY = MarkKey("venus", b"a secret of tests")
# The last ones are written by anybody, and by admins.
COLUMNS = ["JobIDRaw", "Partition", "JobName", "State", "Submit", "Start", "End", "ElapsedRaw", "AllocTRES"]
COLUMNS += ["Comment", "AdminComment"]
SUBMITTED_S = 1_767_225_600  # 2026-01-01 00:00:00
CUT = ("prof", "NODE_FAIL", "2026-01-01T00:00:00", "2026-01-01T00:00:01", "2026-01-01T00:00:11", 10)
AGAIN = ("vc2", "COMPLETED", "2026-01-01T00:00:15", "2026-01-01T00:01:00", "2026-01-01T00:02:00", 60)
FORGED = [
    "lucid:home=vip,submitted=1,stage=profiling",
    f"lucid:home=vip,submitted=1,stage=profiling,seal={'0' * 32}",
    "lucid:home=vip,submitted=99999999999999999999999,stage=home",
    f"lucid:home=vip,submitted={'9' * 5_000},stage=home",
    "lucid:home=vip,submitted=\u0662,stage=home",
    "lucid:home=,submitted=,stage=",
    KEY.sealed(SlurmMark("vip", SUBMITTED_S, MarkStage.PROFILING), "18"),
    MarkKey("mars", KEY.secret).sealed(SlurmMark("vip", SUBMITTED_S, MarkStage.PROFILING), "17"),
    KEY.sealed(SlurmMark("vc2", SUBMITTED_S, MarkStage.PROFILING), "17").replace("vc2", "vip"),
]


def line(run: tuple[object, ...], comment: str = "", admin_comment: str = "", job: str = "17") -> str:
    partition, *rest = run
    return UNIT_SEPARATOR.join(
        map(str, [job, partition, "train", *rest, "gres/gpu=1", comment, admin_comment])
    )


def ingest(folder: Path, lines: list[str], key: MarkKey | None = KEY) -> tuple[pd.DataFrame, IngestReport]:
    log = folder / "sacct.txt"
    log.write_text("\n".join([UNIT_SEPARATOR.join(COLUMNS), *lines]) + "\n")
    lake = folder / "lake"
    report = ingest_log(
        source_format="sacct",
        input_uri=str(log),
        cluster="venus",
        lake_uri=str(lake),
        settings=IngestSettings(mark_key=key),
    )
    return Lake(str(lake)).read_jobs("venus"), report


def plain(jobs: pd.DataFrame) -> pd.DataFrame:
    return jobs.drop(columns=["source_file"])


def sealed(stage: MarkStage, job: str = "17") -> str:
    return KEY.sealed(SlurmMark("vc2", SUBMITTED_S, stage), job)


@pytest.mark.parametrize("of_admin", [False, True])
def test_a_job_that_was_profiled_is_one_job_of_its_home(tmp_path: Path, of_admin: bool) -> None:
    def marked(run: tuple[object, ...], stage: MarkStage) -> str:
        mark = sealed(stage)
        return line(run, *(["", mark] if of_admin else [f"my words\u00a0|\u00a0{mark}"]))

    jobs, report = ingest(tmp_path, [marked(CUT, MarkStage.PROFILING), marked(AGAIN, MarkStage.HOME)])
    assert report.reasons == {"profiling_run": 1}
    assert report.notes == {}
    (job,) = jobs.to_dict("records")
    assert (job["virtual_cluster"], job["state"]) == ("vc2", "COMPLETED")
    assert job["submit_time"].timestamp() == SUBMITTED_S


@pytest.mark.evidence(table="faults", rows=("19",))
@pytest.mark.parametrize("forged", FORGED)
def test_a_forged_mark_is_a_users_text_and_is_counted(
    tmp_path: Path, forged: str, evidence: Evidence
) -> None:
    for name in ("plain", "forged"):
        (tmp_path / name).mkdir()
    runs = [CUT, AGAIN]
    jobs, report = ingest(tmp_path / "plain", [line(run) for run in runs])
    same, forged_report = ingest(tmp_path / "forged", [line(run, forged, forged) for run in runs])
    pd.testing.assert_frame_equal(plain(same), plain(jobs))
    assert len(same) == report.rows_kept == forged_report.rows_kept == 2
    assert forged_report.notes == {"unverified_mark": 2}
    assert report.notes == {}
    evidence(
        "faults",
        "19",
        "The jobs are those of a log without the forgery; the account counts unverified marks.",
    )


def test_a_mark_of_the_first_run_hides_no_later_one(tmp_path: Path) -> None:
    failed_at_home = (AGAIN[0], "NODE_FAIL", *AGAIN[2:])
    lines = [line(CUT, sealed(MarkStage.PROFILING)), line(failed_at_home, sealed(MarkStage.PROFILING))]
    jobs, report = ingest(tmp_path, lines)
    assert report.reasons == {"profiling_run": 1}
    assert len(jobs) == 1  # its user put the old mark back, and the failure is told all the same


def test_without_the_key_marks_are_words(tmp_path: Path) -> None:
    lines = [
        line(CUT, sealed(MarkStage.PROFILING)),
        line(AGAIN, "", sealed(MarkStage.HOME)),
        line(AGAIN, job="18"),
    ]
    jobs, report = ingest(tmp_path, lines, key=None)
    assert report.notes == {"unverified_mark": 2}
    assert sorted(jobs["virtual_cluster"]) == ["prof", "vc2", "vc2"]
    frame, _ = read_jobs_file(str(tmp_path / "sacct.txt"), "sacct", cluster="venus")
    assert len(frame) == 3


@given(words=st.one_of(st.text(max_size=40), st.sampled_from(FORGED)))
def test_words_beside_a_mark_neither_make_nor_hide_one(words: str) -> None:
    assert KEY.read(words, "17") is None
    assert KEY.read(f"{words} {sealed(MarkStage.HOME)}", "17") == SlurmMark(
        "vc2", SUBMITTED_S, MarkStage.HOME
    )
    assert KEY.read(f"{words} {sealed(MarkStage.HOME)}", "19") is None


def test_what_looks_like_a_mark_is_kept_without_the_words_around_it() -> None:
    mark = sealed(MarkStage.HOME)
    assert texts_like_marks(f"secret words\u00a0|\u00a0{mark}\u00a0|\u00a0lucid:\u00a0soon") == mark
    assert texts_like_marks(f"{FORGED[0]} {mark}") == f"{FORGED[0]} {mark}"
    assert texts_like_marks("nothing of the kind") == texts_like_marks(None) == ""


# The key's file


def test_the_key_is_made_once_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / MARK_KEY_FILE
    key = make_mark_key(path, "venus")
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_mark_key(path) == make_mark_key(path, "another name") == key
    assert key.cluster == "venus"
    assert key.secret.hex() not in repr(key)
    assert [file.name for file in tmp_path.iterdir()] == [MARK_KEY_FILE]
    assert make_mark_key(tmp_path / "other", "venus").secret != key.secret


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"format": 1}', '{"format": 2, "cluster": "c", "secret": "00"}']
    + [json.dumps({"format": 1, "cluster": "c", "secret": secret}) for secret in ("", "00", "no hex", 7)],
)
def test_what_is_no_key_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / MARK_KEY_FILE
    path.write_text(text)
    with pytest.raises(BadInputError, match=r"mark\.key"):
        read_mark_key(path)


def test_ingest_finds_the_key_of_this_machine_or_the_one_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUCID_STATE_DIR", str(tmp_path))
    monkeypatch.delenv("LUCID_MARK_KEY", raising=False)
    assert mark_key_of("venus") is None
    own = tmp_path / "live" / "venus" / MARK_KEY_FILE
    own.parent.mkdir(parents=True)
    key = make_mark_key(own, "venus")
    assert mark_key_of("venus") == key
    assert mark_key_of("mars") is None
    copy = tmp_path / "copy"
    other = make_mark_key(copy, "mars")
    monkeypatch.setenv("LUCID_MARK_KEY", str(copy))
    assert mark_key_of("venus") == other
    assert mark_key_of("venus", own) == key
    with pytest.raises(NotFoundError):
        mark_key_of("venus", tmp_path / "none")
