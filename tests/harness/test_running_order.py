"""Which test files share a process, and which run first."""

import pytest

from tests.running_order import rank_of, unit_of

pytest_plugins = "pytester"


def test_a_file_stays_together_and_files_with_one_server_too() -> None:
    one, other = (
        "tests/pipeline/studies/test_sweep.py::test_a",
        "tests/pipeline/studies/test_sweep.py::test_b[c/d::e]",
    )
    assert unit_of(one) == unit_of(other) == "tests/pipeline/studies/test_sweep.py"
    assert unit_of("tests/dags/test_tune_system_runs.py::test_a") == "shop"
    assert unit_of("tests/lucid_models/test_releases.py::test_a") == "shop"
    assert unit_of("tests/browser/test_releases.py::test_a") == "visit", "another file of that name"
    assert unit_of("tests/pipeline/validation/test_release_validation.py::test_a") == "mlflow_server"
    assert unit_of("tests/slurm/test_slurm_loop.py::test_a") == "tests/slurm/test_slurm_loop.py", "its own"


def test_long_ones_come_first(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nmarkers =\n    slow\n    end_to_end")
    new, slow, chain = pytester.getitems(
        """
        import pytest

        def test_new(): ...

        @pytest.mark.slow
        def test_slow(): ...

        @pytest.mark.end_to_end
        def test_chain(): ...
        """
    )
    assert sorted([new, slow, chain], key=rank_of) == [chain, slow, new]
