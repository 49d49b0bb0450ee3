import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foundation.errors import BadInputError
from live_scheduler.ranking import check_queue, rank_queue, read_queue
from live_scheduler.release import FallbackRelease

HEADER = "job_id,user,virtual_cluster,name,gpus,submit_time\n"
FALLBACK = FallbackRelease("no release was ever fetched.")


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_reads_csv_json_and_gzip_alike(tmp_path: Path) -> None:
    rows = [
        {"job_id": "7", "user": "u1", "virtual_cluster": "vc", "name": "a,b", "gpus": 2,
         "submit_time": 1_600_000_000},
        {"job_id": "x8", "user": None, "virtual_cluster": "vc", "name": None, "gpus": 0,
         "submit_time": "2020-09-13T12:26:40+00:00"},
    ]  # fmt: skip
    csv = HEADER + '7,u1,vc,"a,b",2,1600000000\r\nx8,,vc,,0,2020-09-13 12:26:40\n'
    packed = tmp_path / "queue.csv.gz"
    packed.write_bytes(gzip.compress(csv.encode()))
    read = [
        read_queue(write(tmp_path / "queue.csv", csv)),
        read_queue(packed),
        read_queue(write(tmp_path / "queue.json", json.dumps(rows))),
        read_queue(write(tmp_path / "queue2.json", json.dumps({"jobs": rows}))),
    ]
    assert read[0][0]["name"] == "a,b"
    assert read[0][1] | {"submit_time_s": 0} == {
        "job_id": "x8", "gpus": 0, "submit_time_s": 0, "user": None, "virtual_cluster": "vc", "name": None,
        "job_type": None, "cpus": None, "nodes": None, "time_limit_s": None, "gpu_util_pct": None,
        "gpu_mem_util_pct": None, "gpu_mem_mib": None, "account": None, "group": None, "queue": None,
        "qos": None, "gpu_type": None, "requested_memory_mib": None,
    }  # fmt: skip
    assert [job["submit_time_s"] for job in read[0]] == [1_600_000_000, 1_600_000_000]
    assert all(other == read[0] for other in read[1:])


def test_a_queue_carries_every_fact_of_a_waiting_job(tmp_path: Path) -> None:
    csv = "job_id,gpus,submit_time,account,group,queue,qos,gpu_type,requested_memory_mib\n"
    (job,) = read_queue(write(tmp_path / "queue.csv", csv + "7,1,0,physics,users,long,,a100,20480\n"))
    assert (job["account"], job["group"], job["queue"], job["qos"]) == ("physics", "users", "long", None)
    assert (job["gpu_type"], job["requested_memory_mib"]) == ("a100", 20_480.0)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "is empty"),
        ("\n  \n", "is empty"),
        (HEADER + "1,u,vc,n,nan,0\n", "row 1, column gpus is 'nan'"),
        (HEADER + "1,u,vc,n,2,0\n2,u,vc,n,1.5,0\n", "row 2, column gpus is '1.5'"),
        (HEADER + "1,u,vc,n,-1,0\n", "column gpus"),
        (HEADER + "1,u,vc,n,inf,0\n", "column gpus"),
        (HEADER + "1,u,vc,n,,0\n", "column gpus is missing"),
        (HEADER + "1,u,vc,n,1,NaN\n", "column submit_time is 'NaN'"),
        (HEADER + "1,u,vc,n,1,\n", "column submit_time is missing"),
        (HEADER + "1,u,vc,n,1,yesterday\n", "column submit_time"),
        (HEADER + "1,u,vc,n,1,-5\n", "column submit_time"),
        (HEADER + ",u,vc,n,1,0\n", "column job_id is missing"),
        (HEADER + "1,u,vc,n,1,0\n1,u,vc,n,1,0\n", "stands in row 1 too"),
        (HEADER + '1,u,vc,"n,1,0\n', "not CSV"),
        (HEADER + "1,u,vc,n,1\n", "6 fields"),
        (HEADER + "1,u,vc,n,1,0,9\n", "6 fields"),
        (HEADER.replace(",", ";") + "1;u;vc;n;1;0\n", "lacks the columns"),
        ("job_id,gpus,submit_time,gpus\n1,1,0,2\n", "twice"),
        ("job_id,gpus,submit_time,gpu_util_pct\n1,1,0,250\n", "gpu_util_pct"),
        ("job_id,gpus,submit_time,gpu_util_pct\n1,1,0,nan\n", "gpu_util_pct"),
        ('[{"job_id": 1, "gpus": NaN, "submit_time": 0}]', "row 1, column gpus is nan"),
        ('[{"job_id": 1, "gpus": 1, "submit_time": 0, "user": NaN}]', "column user"),
        ('[{"job_id": 1, "gpus": true, "submit_time": 0}]', "column gpus"),
        ('[{"job_id": {}, "gpus": 1, "submit_time": 0}]', "column job_id"),
        ('[{"job_id": 1, "gpus": [1], "submit_time": 0}]', "column gpus"),
        ("[1]", "row 1 is 1"),
        ('{"queue": []}', "no list of jobs"),
        ("[{", "not JSON"),
        (HEADER.encode() + b"1,caf\xe9,vc,n,1,0\n", "line 2, is not UTF-8"),
    ],
)
def test_garbage_names_row_and_column(tmp_path: Path, text: str | bytes, named: str) -> None:
    with pytest.raises(BadInputError) as caught:
        read_queue(write(tmp_path / "queue.csv", text))
    assert named in str(caught.value)
    assert "queue.csv" in str(caught.value)


def test_truncated_gzip_is_an_error(tmp_path: Path) -> None:
    whole = gzip.compress((HEADER + "1,u,vc,n,1,0\n" * 50).encode())
    with pytest.raises(BadInputError, match="cannot be read"):
        read_queue(write(tmp_path / "queue.csv.gz", whole[:-10]))
    with pytest.raises(BadInputError, match="cannot be read"):
        read_queue(tmp_path / "absent.csv")


def test_an_empty_queue_is_a_queue(tmp_path: Path) -> None:
    assert read_queue(write(tmp_path / "queue.csv", HEADER)) == []
    assert read_queue(write(tmp_path / "queue.json", "[]")) == []
    assert rank_queue([], FALLBACK) == []


def test_rows_may_hold_numpy_values() -> None:
    row = {"job_id": "a", "gpus": np.int64(2), "submit_time": np.float64(5.0)}
    assert check_queue([row])[0]["gpus"] == 2
    with pytest.raises(BadInputError, match="column gpus"):
        check_queue([row | {"gpus": np.nan}])


def test_without_a_release_first_in_first_out() -> None:
    queue = [
        {"job_id": name, "gpus": gpus, "submit_time": submitted}
        for name, gpus, submitted in (("late", 1, 30), ("first", 64, 10), ("tie", 1, 30), ("second", 1, 20))
    ]
    ranked = rank_queue(queue, FALLBACK)
    assert [job.job_id for job in ranked] == ["first", "second", "late", "tie"]
    assert {job.estimated_duration_s for job in ranked} == {None}
    assert all("no release was ever fetched" in job.reason for job in ranked)


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "gpus": st.one_of(st.integers(-2, 70), st.floats(), st.text(max_size=3), st.none()),
                "submit_time": st.one_of(st.floats(), st.text(max_size=12), st.none(), st.booleans()),
                "user": st.one_of(st.text(max_size=4), st.none(), st.floats()),
            }
        ),
        max_size=4,
    )
)
def test_any_queue_is_ranked_whole_or_refused_clearly(rows: list[dict[str, Any]]) -> None:
    queue = [{"job_id": str(number), **row} for number, row in enumerate(rows)]
    refusal = ""
    try:
        ranked = rank_queue(queue, FALLBACK)
    except BadInputError as error:
        refusal = str(error)
    if refusal:
        assert "row" in refusal
        assert "column" in refusal
    else:
        assert sorted(job.job_id for job in ranked) == sorted(str(row["job_id"]) for row in queue)
        assert [job.priority for job in ranked] == sorted(job.priority for job in ranked)
