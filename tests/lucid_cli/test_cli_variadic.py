"""`--policy a b c`, `--policy a,b,c` and `--policy a --policy b --policy c` say the same."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucid_cli.variadic import names_of, repeat_options
from tests.lucid_cli.test_cli_contract import reference_csv


@pytest.mark.parametrize(
    ("given_words", "written"),
    [
        ("--policy a b c", "--policy a --policy b --policy c"),
        ("--policy=a b --out x", "--policy=a --policy b --out x"),
        ("--out x --policy a b --json", "--out x --policy a --policy b --json"),
        ("--policy a --policy b", "--policy a --policy b"),
        ("--policy a b --setting c d", "--policy a --policy b --setting c --setting d"),
        ("--out x y", "--out x y"),  # not ours: the parser says what is wrong with it
        ("--policy a b --gpus 8 c", "--policy a --policy b --gpus 8 c"),
        ("--policy --json", "--policy --json"),
        ("--policy a -- b", "--policy a -- b"),
    ],
)
def test_words_are_written_out(given_words, written):
    assert repeat_options(given_words.split(), ["--policy", "--setting"]) == written.split()


words = st.lists(st.sampled_from(["--policy", "--out", "--json", "-h", "a", "b", "--policy=a"]), max_size=12)


@given(words)
def test_writing_out_twice_changes_nothing_and_loses_no_word(arguments):
    once = repeat_options(arguments, ["--policy"])
    assert repeat_options(once, ["--policy"]) == once
    assert [word for word in once if word != "--policy"] == [word for word in arguments if word != "--policy"]


def test_names_are_read_once_each():
    assert names_of(["a,b", "c", "a ", "", "b,,d"]) == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    "words", [("--policy", "fifo", "sjf"), ("--policy", "fifo,sjf"), ("--policy", "fifo", "--policy", "sjf")]
)
def test_simulate_reads_several_policies(lucid, tmp_path, words):
    log = reference_csv(tmp_path / "log.csv", jobs=8)
    said = lucid(
        "simulate", *words, "--jobs", log, "--format", "reference-csv", "--gpus", 16, "--out", "out", "--json"
    )
    assert said.code == 0, said.err
    assert [row["policy"] for row in said.json] == ["fifo", "sjf"]
    assert [row["policy"] for row in json.loads((tmp_path / "out" / "summary.json").read_text())] == [
        "fifo",
        "sjf",
    ]


def test_a_word_too_many_is_an_error(lucid, tmp_path):
    log = reference_csv(tmp_path / "log.csv", jobs=8)
    said = lucid(
        "simulate", "--policy", "fifo", "--jobs", log, "sjf", "--format", "reference-csv", "--out", "out"
    )
    assert said.code != 0
    assert "sjf" in said.err
