"""One bad value concerns one row: any field of any row of any format may hold anything."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cluster_logs.readers.base import ReadOptions, load_reader, read_chunks
from cluster_logs.readers.registry import formats
from cluster_logs.readers.source import MAX_LINE_BYTES
from foundation.errors import LucidError
from tests.cluster_logs.sample_logs import SAMPLES
from tests.evidence import Evidence

OPTIONS = ReadOptions("venus")
DELIMITERS = {"sacct": b"|", "swf": b" "}
DELIMITED = sorted(set(formats()) - {"lake", "philly-json"})
# A row's place in the file's order is its id.
DERIVED = {"philly-csv": ("job_id",)}

NASTY = [
    *(b"", b" ", b"None", b"NaN", b"inf", b"-inf", b"-1", b"-0", b"1e400", b"1_0", b"[]", b"{}", b"=1+1"),
    *(b"9" * 20, b"9" * 400, b"9999999999999", b"9" * 5_000 + b":00", b"99999999999999999999-00:00:00"),
    *(word.encode() for word in ("²", "٣", "é", "１２", "\u2028", "gres/gpu=²", "gres/gpu=nan,node=inf")),
    *(b"\xff\xfe", b"\xed\xa0\x80", b"\x00", b"\x1b[31m", b"\x1f", b"\x0b", b"\x85"),
    *(b"0001-01-01 00:00:00", b"9999-12-31 23:59:59", b"99999-01-01", b"2020-02-30 00:00:00", b"20200401"),
    *(b"2020-04-01T25:00:00+99:99", b"2020-04-01 00:00:00-23:59", b'"', b'""', b'a"b', b'"a"b"'),
]
# Newlines would make other rows; they are tried in the tests of whole files.
ANYTHING = st.one_of(
    st.sampled_from(NASTY),
    st.binary(max_size=12).map(lambda raw: raw.replace(b"\n", b"").replace(b"\r", b"")),
    st.integers().map(lambda number: str(number).encode()),
    st.floats().map(lambda number: repr(number).encode()),
    st.datetimes().map(lambda time: str(time).encode()),
)


def is_row(line: bytes) -> bool:
    return bool(line.strip(b" \t")) and not line.lstrip(b" \t").startswith(b";")


@cache
def sample(name: str) -> bytes:
    return SAMPLES[name].read_bytes()


def outcome(name: str, path: Path) -> tuple[dict[int, list[Any]], dict[int, str], int]:
    """The kept rows and the refusals by row of the file, and the rows read; the account is checked."""
    kept: dict[int, list[Any]] = {}
    refused: dict[int, str] = {}
    rows_in = skipped = 0
    for chunk in read_chunks(load_reader(name), str(path), OPTIONS):
        table = chunk.rows
        if "source_row" in table.column_names:
            table = table.drop_columns([column for column in DERIVED.get(name, ()) if column])
            for row in table.to_pylist():
                kept.setdefault(row["source_row"], []).append(row)
        refused |= {row["source_row"]: row["reason"] for row in chunk.refused.to_pylist()}
        rows_in += chunk.rows_in
        skipped += chunk.skipped.total()
        assert "source_row" not in table.column_names or (
            chunk.rows_in == chunk.rows.num_rows + chunk.refused.num_rows + chunk.skipped.total()
        )
    return kept, refused, rows_in


def check_others(name: str, path: Path, whole: tuple[Any, Any, int], row: int) -> None:
    """Only one row may have another outcome than before."""
    kept, refused, rows_in = outcome(name, path)
    assert rows_in == whole[2]
    for before, after in ((whole[0], kept), (whole[1], refused)):
        assert {at: was for at, was in before.items() if at != row} == {
            at: now for at, now in after.items() if at != row
        }


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("nasty")


@pytest.mark.evidence(table="faults", rows=("22",))
@pytest.mark.parametrize("name", DELIMITED)
def test_any_value_in_any_field_of_a_delimited_log(name: str, scratch: Path, evidence: Evidence) -> None:
    delimiter = DELIMITERS.get(name, b",")
    lines = sample(name).splitlines()
    rows = [at for at, line in enumerate(lines) if is_row(line)]
    if name != "swf":
        rows = rows[1:]  # the header
    path = scratch / f"{name}.log"
    path.write_bytes(sample(name))
    whole = outcome(name, path)

    @settings(max_examples=40)
    @given(st.sampled_from(rows), st.integers(0, 17), ANYTHING)
    def check(line: int, field: int, value: bytes) -> None:
        fields = lines[line].split(delimiter)
        fields[field % len(fields)] = value
        changed = [*lines[:line], delimiter.join(fields), *lines[line + 1 :]]
        if not is_row(changed[line]):
            return
        path.write_bytes(b"\n".join(changed) + b"\n")
        check_others(name, path, whole, rows.index(line) + 1)

    check()
    evidence(
        "faults",
        "22",
        "Any bytes in any field cost their own row only, which is quarantined with a reason.",
    )


def json_values() -> st.SearchStrategy[Any]:
    texts = st.one_of(st.text(max_size=8), st.sampled_from([value.decode("latin-1") for value in NASTY]))
    leaves = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), texts)
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
        max_leaves=6,
    )


DEEP_LIST = "[" * 5_000 + "]" * 5_000
RAW_JSON = ["9" * 5_000, DEEP_LIST, '{"a":' * 3_000 + "1" + "}" * 3_000, r'"\ud800"', "1e999", "tru"]
JSON_PLACES = (
    *("jobid", "vc", "user", "status", "submitted_time", "attempts"),
    *("attempt", "detail", "gpus", "ip", "start_time", "end_time"),
)


def test_any_value_in_any_field_of_philly_json(scratch: Path) -> None:
    jobs = json.loads(sample("philly-json"))
    path = scratch / "cluster_job_log"
    path.write_text(json.dumps(jobs))
    whole = outcome("philly-json", path)
    rows = [0, 1]  # those with an attempt on GPUs

    @settings(max_examples=100)
    @given(st.sampled_from(rows), st.sampled_from(JSON_PLACES), json_values() | st.sampled_from(RAW_JSON))
    @example(rows[0], "gpus", 8)
    @example(rows[0], "gpus", DEEP_LIST)
    def check(row: int, place: str, value: Any) -> None:
        changed = json.loads(json.dumps(jobs))
        job = changed[row]
        attempt = job["attempts"][0]
        mark = "@@here@@"
        if place in job:
            job[place] = mark
        elif place == "attempt":
            job["attempts"][0] = mark
        elif place in ("gpus", "ip"):
            attempt["detail"][0][place] = mark
        else:
            attempt[place] = mark
        raw = value if isinstance(value, str) and value in RAW_JSON else json.dumps(value)
        path.write_text(json.dumps(changed).replace(f'"{mark}"', raw))
        check_others("philly-json", path, whole, row + 1)

    check()


BROKEN_JSON = ['{"jobid": 1, "attempts": [}', '{"jobid": "1}', "}", "oops", '{"a": tru, "b": [1}', DEEP_LIST]


@pytest.mark.parametrize("broken", BROKEN_JSON, ids=range(len(BROKEN_JSON)))
def test_an_element_that_is_no_json_is_refused_by_itself(broken: str, tmp_path: Path) -> None:
    good = json.loads(sample("philly-json"))[0]
    path = tmp_path / "cluster_job_log"
    path.write_text(f"[{broken},\n{json.dumps(good)}]")
    kept, refused, rows_in = outcome("philly-json", path)
    assert (list(kept), rows_in) == ([2], 2)
    assert set(refused.values()) == {"not_a_job"}


def test_any_typed_value_in_a_parquet_log(scratch: Path) -> None:
    submit = pd.to_datetime(["2020-04-01"] * 3, utc=True)
    jobs = pd.DataFrame(
        {
            "job_id": ["1", "2", "3"],
            "virtual_cluster": "a",
            "gpus": [1.0, 2.0, 3.0],
            "duration_s": [1.0, 2.0, 3.0],
            "cpus": [1.0, 2.0, 3.0],
            "gpu_share": 1.0,
            "submit_time": submit,
        }
    )
    path = scratch / "jobs.parquet"
    numbers = st.sampled_from([float("nan"), float("inf"), -1.0, 1e300, 0.5, 2.0**63])
    instants = st.sampled_from(
        [pd.Timestamp(text, tz="UTC") for text in ("1677-10-01", "2262-01-01", "1969-12-31")]
    )

    @settings(max_examples=40)
    @given(
        st.one_of(
            st.tuples(st.sampled_from(["gpus", "duration_s", "cpus", "gpu_share"]), numbers),
            st.tuples(st.just("submit_time"), instants),
            st.tuples(st.sampled_from(["job_id", "virtual_cluster"]), st.sampled_from(["", "²", "\x00"])),
        )
    )
    def check(change: tuple[str, Any]) -> None:
        changed = jobs.copy()
        changed.loc[1, change[0]] = change[1]
        changed.to_parquet(path)
        rows = [chunk.rows for chunk in read_chunks(load_reader("lake"), str(path), OPTIONS)]
        assert {"1", "3"} <= set(rows[0].column("job_id").to_pylist())

    check()


@pytest.mark.parametrize("name", ["helios", "sacct", "swf"])
@pytest.mark.parametrize("mib", [4, 15])
def test_a_long_value_is_a_value(name: str, mib: int, scratch: Path) -> None:
    """Lines may be as long as is said, whatever blocks the parser likes."""
    lines = sample(name).splitlines()
    delimiter = DELIMITERS.get(name, b",")
    path = scratch / f"long-{name}"
    path.write_bytes(sample(name))
    kept, _, rows_in = outcome(name, path)
    fields = lines[-1].split(delimiter)
    path.write_bytes(sample(name) + delimiter.join([b"x" * (mib << 20), *fields[1:]]) + b"\n")
    after, _, rows_after = outcome(name, path)
    assert rows_after == rows_in + 1
    assert {row: after[row] for row in kept} == kept


def test_a_line_that_is_too_long_is_named(tmp_path: Path) -> None:
    path = tmp_path / "helios.csv"
    path.write_bytes(sample("helios") + b"x" * (MAX_LINE_BYTES + 2) + b"\n")
    with pytest.raises(LucidError, match=r"line 27, has more than 16 MiB"):
        outcome("helios", path)
