"""`lucid plan` with sleeping nodes."""

from pathlib import Path

from tests.command_line import Lucid
from tests.lucid_cli.test_plan import check_front


def test_each_row_of_the_front_is_what_its_command_gives(lucid: Lucid, tmp_path: Path) -> None:
    sleeping = ("--node-sleep", "buffer_nodes=1", "boot_s=300,600")
    check_front(lucid, tmp_path, "--nodes", "nodes.csv", *sleeping, "--workers", "2")
