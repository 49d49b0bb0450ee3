"""JSON of others is read in one way or not at all."""

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foundation import strict_json
from foundation.errors import BadInputError
from foundation.strict_json import MOST_LEVELS, StrictJsonError

documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(documents)
def test_what_is_json_is_read_as_everyone_reads_it(document: Any) -> None:
    text = json.dumps(document)
    assert strict_json.loads(text) == document
    assert strict_json.loads(text.encode()) == document


@pytest.mark.parametrize(
    ("payload", "says"),
    [
        (b'{"approved": false, "approved": true}', "the key 'approved' stands twice in one object"),
        (b'[{"a": {"b": 1, "b": 1}}]', "'b' stands twice"),
        (b'{"share": NaN}', "NaN is not a number of JSON"),
        (b'{"share": -Infinity}', "-Infinity is not a number"),
        (b"[" * 5_000 + b"]" * 5_000, f"nested deeper than {MOST_LEVELS} levels"),
        (b'{"a":' * 5_000 + b"1" + b"}" * 5_000, f"nested deeper than {MOST_LEVELS} levels"),
        (b"[" * 2_000_000, "nested deeper"),
        (b"[1, 2", "Expecting"),
        (b"", "Expecting value"),
        (b"1" * 5_000, "digits"),
        (b"\xff\xfe", "utf-8"),
        (b'"' + b"a" * 101 + b'"', "more than the 100 that it may"),
    ],
)
def test_anything_else_is_refused_and_said(payload: bytes, says: str) -> None:
    most = 100 if "100" in says else strict_json.MOST_BYTES
    with pytest.raises(StrictJsonError, match=says) as refused:
        strict_json.loads(payload, most_bytes=most)
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)


@given(st.integers(1, 30), st.booleans())
def test_levels_are_counted_exactly(levels: int, objects: bool) -> None:
    begin, end = ('{"[[":', "}") if objects else ("[", "]")
    nested = begin * levels + '"]["' + end * levels
    assert strict_json.loads(nested, most_levels=levels) == json.loads(nested)
    with pytest.raises(StrictJsonError, match=f"deeper than {levels - 1} levels"):
        strict_json.loads(nested, most_levels=levels - 1)


def test_constants_are_numbers_where_a_format_has_them() -> None:
    assert strict_json.loads('{"a": Infinity}', constants=True) == {"a": float("inf")}


def test_a_setting_of_the_environment_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    from foundation.environment import read_json_object

    for text in ('{"a": 1, "a": 2}', "[" * 5_000):
        monkeypatch.setenv("LUCID_GATE_RULES", text)
        with pytest.raises(BadInputError, match="LUCID_GATE_RULES is not JSON"):
            read_json_object("LUCID_GATE_RULES", example='{"margin_pct": 1}')
