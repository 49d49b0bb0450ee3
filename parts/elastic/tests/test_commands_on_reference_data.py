"""The contract of `lucid pareto` on a public log."""

import pytest

from tests.command_line import Shell
from tests.fixtures import MlflowServer
from tests.lucid_cli.test_commands_on_reference_data import PCS_TRACE, Command, Script, says_what_it_promises
from tests.reference import ROOT

COMMANDS = {
    "pareto search": Command(
        (
            "pareto",
            "search",
            "--format",
            "pcs-csv",
            "--jobs",
            PCS_TRACE,
            "--gpus",
            "64",
            "--evaluations",
            "4",
            "--round-size",
            "4",
            "--jobs-per-sample",
            "50",
            "--samples",
            "1",
            "--held-out-samples",
            "1",
            "--workers",
            "1",
            "--out",
            "front",
        ),
        "study preference evaluations simulations executed front",
        check=lambda document, folder: document["front"] and (folder / "front" / "front.html").is_file(),
    ),
    "pareto show": Command(
        ("pareto", "show", "--study", "front"), "name preference front", needs=("pareto search",)
    ),
    "pareto pick": Command(
        ("pareto", "pick", "c1", "--study", "front", "--out", "pick.json"),
        "front_id configuration file",
        needs=("pareto search",),
        check=lambda document, folder: (folder / "pick.json").is_file(),
    ),
}


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory, own_mlflow_server: MlflowServer) -> Script:
    folder = tmp_path_factory.mktemp("shell")
    return Script(Shell(folder, own_mlflow_server.uri, LUCID_REFERENCE_DATA=str(ROOT)), COMMANDS)


@pytest.mark.slow
@pytest.mark.reference
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_says_what_the_contract_promises(script: Script, name: str) -> None:
    says_what_it_promises(script, name)
