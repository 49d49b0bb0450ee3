"""Logs that are rotated while they are written."""

from pathlib import Path

from local_stack.process_logs import rotate_logs


def test_the_newest_copies_stay_in_order(tmp_path: Path) -> None:
    log = tmp_path / "mlflow.log"
    with log.open("ab", buffering=0) as writer:  # as the supervisor opens it
        for round_number in range(5):
            writer.write(f"{round_number}".encode() * 100)
            assert rotate_logs(tmp_path, 50, 3) == [log]
            assert log.stat().st_size == 0
        writer.write(b"small")
    assert rotate_logs(tmp_path, 50, 3) == []
    texts = {path.name: path.read_text()[:5] for path in tmp_path.iterdir()}
    assert texts == {
        "mlflow.log": "small",
        "mlflow.log.1": "44444",
        "mlflow.log.2": "33333",
        "mlflow.log.3": "22222",
    }


def test_without_copies_the_log_is_emptied(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"x" * 100)
    (tmp_path / "a.log.1").write_bytes(b"old")
    rotate_logs(tmp_path, 50, 0)
    assert {path.name: path.stat().st_size for path in tmp_path.iterdir()} == {"a.log": 0}


def test_a_log_that_cannot_be_copied_is_emptied_even_so(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"x" * 100)
    (tmp_path / "elsewhere").write_bytes(b"keep")
    (tmp_path / "a.log.1").symlink_to(tmp_path / "elsewhere")
    rotate_logs(tmp_path, 50, 1)
    assert (tmp_path / "a.log").stat().st_size == 0
    assert (tmp_path / "elsewhere").read_bytes() == b"keep"
