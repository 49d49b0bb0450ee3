"""Slurm's host lists, written by people and by us."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_logs.host_lists import expand_hosts, fold_hosts, listed_hosts

NAMES = st.builds(
    "{}{}".format,
    st.sampled_from(["n", "gpu-", "rack1n", "login", ""]),
    st.one_of(st.just(""), st.integers(0, 1200).map(str), st.integers(0, 120).map("{:03}".format)),
).filter(bool)


@given(st.lists(NAMES, max_size=40))
def test_folded_names_are_the_same_again(names: list[str]) -> None:
    assert [name for each in fold_hosts(names) for name in expand_hosts(each)] == names


@given(st.integers(0, 2_000), st.integers(0, 500), st.integers(1, 4))
def test_a_range_is_one_entry(first: int, more: int, width: int) -> None:
    names = [f"n{number:0{width}}" for number in range(first, first + more + 1)]
    text = f"n[{first:0{width}}-{first + more:0{width}}],login"
    assert [listed_hosts(text)[0], listed_hosts(text)[1]] == [text.removesuffix(",login"), "login"]
    assert expand_hosts(listed_hosts(text)[0]) == names
    assert len(fold_hosts(names)) == 1


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("n[1-4,7]", ["n[1-4,7]"]),
        ("n[01-10],login,", ["n[01-10]", "login"]),
        ("r[0-1]n[1-2],,x", ["r[0-1]n[1-2]", "x"]),
        ("", []),
    ],
)
def test_entries(text: str, entries: list[str]) -> None:
    assert listed_hosts(text) == entries


@pytest.mark.parametrize(
    "text", ["n[1-3", "n]", "n[3-1]", "n[a-c]", "n[1-2-3]", "n[[1]]", "n[]", "n[1-999999]"]
)
def test_no_list_of_hosts(text: str) -> None:
    with pytest.raises(ValueError):
        listed_hosts(text)


def test_numbers_of_seven_digits_are_a_range_too() -> None:
    names, written = ["n1000001", "n1000002"], "n[1000001-1000002]"
    assert fold_hosts(names) == listed_hosts(written) == [written]
    assert expand_hosts(written) == names
    with pytest.raises(ValueError, match="more than 100,000 names"):
        listed_hosts("n[1-999999999]")
