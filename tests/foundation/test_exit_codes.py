"""What the programs beside `lucid` say by their exit codes."""

from importlib import import_module

import pytest

from foundation import exit_codes

PROGRAMS = (
    "live_scheduler.safety.dead_mans_switch",
    "local_stack.stack",
    "lucid_cli.demo",
    "profiler_jobs.__main__",
    "profiler_jobs.gpu_check",
    "profiler_jobs.node_sampler",
)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_command_line_that_cannot_be_read_is_an_error_and_no_refusal(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        import_module(program).main(["--unheard-of"])
    assert ended.value.code == exit_codes.ERROR
    assert "error: " in capsys.readouterr().err
