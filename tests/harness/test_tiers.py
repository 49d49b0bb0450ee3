"""Which tests a tier runs, and that nothing is left out by all of them."""

from pathlib import Path

import pytest

pytest_plugins = "pytester"

# The options and hooks of tests/fixtures.py that are about tiers.
CONFTEST = """
import pytest
from tests import rest, tiers

def pytest_addoption(parser):
    rest.add_option(parser)
    tiers.add_option(parser)

def pytest_collection_modifyitems(config, items):
    rest.keep_rest(config, items)
    tiers.keep_tier(config, items)

@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    rest.watch(config)
"""
FILES = {
    "inner": "def test_inner(): ...",
    "model": "import pytest\n@pytest.fixture\ndef world(): ...\ndef test_model(world): ...",
    "slow": "import pytest\n@pytest.mark.slow\ndef test_slow(): ...",
    "sizes": "import pytest\n@pytest.mark.slow\n@pytest.mark.thorough('full size')\ndef test_sizes(): ...",
    "public": "import pytest\n@pytest.mark.reference\ndef test_public(): ...",
    "lacking": "import pytest\npytest.importorskip('not_there')\ndef test_lacking(): ...",
}


@pytest.fixture
def tree(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A checkout with a test of each kind, one of them in a folder that is left to the largest tier."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    pytester.makeini(
        "[pytest]\ntestpaths = checks\naddopts = --import-mode=importlib\n"
        "markers =\n    slow\n    thorough\n    reference\n    end_to_end"
    )
    (pytester.path / "conftest.py").write_text(CONFTEST)
    folder = pytester.path / "checks"
    (folder / "slurm").mkdir(parents=True)
    for name, text in FILES.items():
        (folder / f"test_{name}.py").write_text(text + "\n")
    (folder / "slurm" / "test_queue.py").write_text("def test_queue(): ...\n")
    return pytester


def ran(tree: pytest.Pytester, *options: str) -> set[str]:
    """The tests that a run of the checkout passed."""
    found = tree.runpytest_subprocess("-v", *options)
    return {
        line.partition("::test_")[2].split()[0] for line in found.outlines if " PASSED" in line
    }  # fmt: skip


def test_each_tier_has_all_of_the_one_before(tree: pytest.Pytester) -> None:
    assert ran(tree, "--tier", "quick") == {"inner"}
    assert ran(tree, "--tier", "usual") == {"inner", "model", "slow"}
    assert ran(tree) == {"inner", "model", "slow", "sizes", "public", "queue"}


def test_the_rest_is_what_a_run_left_and_what_it_skipped(tree: pytest.Pytester) -> None:
    ran(tree, "--tier", "usual")
    (tree.path / "checks" / "test_lacking.py").write_text("def test_lacking(): ...\n")  # now it is there
    assert ran(tree, "--rest") == {"sizes", "public", "queue", "lacking"}
    assert ran(tree, "--rest") == {"sizes", "public", "queue", "lacking"}, "the rest leaves nothing behind"


def test_without_an_earlier_run_the_rest_is_refused(tree: pytest.Pytester) -> None:
    tree.runpytest_subprocess("--rest").stderr.fnmatch_lines("*none ended here: run `make test`*")
