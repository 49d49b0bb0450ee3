"""A command of the core takes the options of the parts that are installed, and knows those that are not."""

import subprocess
import sys

REPLAY = [
    *("simulate", "--jobs", __file__, "--format", "philly", "--out", "out"),
    *("--policy", "fifo", "--gpus", "8"),
]
TOY = "parts.Part('toy', 'A toy', options={'simulate': 'tests.lucid_cli.toy_options:ToyInReplay'})"


def lucid(parts: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the program where these parts are installed."""
    code = (
        f"import sys; from foundation import parts; installed = ({parts}); "
        f"parts.installed_parts = lambda: installed; sys.argv = {['lucid', *words]!r}; "
        "from lucid_cli.main import main; main()"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_an_option_of_a_part_is_an_option_of_the_command() -> None:
    assert "--toys" in lucid(f"{TOY},", "simulate", "--help").stdout
    assert lucid(f"{TOY},", *REPLAY, "--toys", "3").stderr.strip() == "3 toys of philly"


def test_an_option_of_a_part_that_is_not_installed_names_it() -> None:
    for words, part in (
        ([*REPLAY, "--node-sleep", "buffer_nodes=1"], "node_sleep"),
        ([*REPLAY, "--inference", __file__], "lending"),
        (["plan", "--node-sleep", "buffer_nodes=1"], "node_sleep"),
        (["nodes", "replay"], "node_sleep"),
    ):
        done = lucid("", *words)
        assert done.returncode != 0
        assert f"belongs to the part {part!r}, which is not installed." in done.stderr
        assert f"pip install ./parts/{part}" in done.stderr
    assert "No such option" in lucid("", *REPLAY, "--toys", "3").stderr
