"""Which test files share a process, and that the order names files that exist."""

from tests.running_order import FIRST, SERVERS, TESTS, rank_of, unit_of


def test_the_order_names_files_and_servers_once() -> None:
    assert set(FIRST) - set(SERVERS) - {path.stem for path in TESTS.rglob("test_*.py")} == set()
    assert len(set(FIRST)) == len(FIRST)


def test_a_file_stays_together_and_files_with_one_server_too() -> None:
    one, other = "tests/pipeline/test_sweep.py::test_a", "tests/pipeline/test_sweep.py::test_b[c/d::e]"
    assert unit_of(one) == unit_of(other) == "test_sweep"
    assert unit_of("tests/dags/test_tune_system_runs.py::test_a") == "shop"
    assert unit_of("tests/lucid_models/test_releases.py::test_a") == "shop"
    assert unit_of("tests/pipeline/test_release_validation.py::test_a") == "mlflow_server"
    assert unit_of("tests/slurm/test_slurm_loop.py::test_a") == "test_slurm_loop", "a server of its own"


def test_long_ones_come_first() -> None:
    released, long, new = (
        "tests/lucid_models/test_releases.py::x",
        "tests/pipeline/test_sweep.py::x",
        "new.py::x",
    )
    assert rank_of(released) < rank_of(long) < rank_of(new)
