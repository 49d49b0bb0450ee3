"""MLflow's accounts: `python -m mlflow_access serve | add | remove | list`."""

import argparse
import os
import sys
from pathlib import Path

from foundation.environment import state_dir
from foundation.errors import LucidError
from foundation.exit_codes import ERROR, CommandLine
from foundation.screen_text import on_screen
from mlflow_access.accounts import ACCOUNTS_FILE, FILE_VARIABLE, Accounts, AccountsFile
from mlflow_access.roles import ROLES

APP = "lucid"  # an entry point of the group `mlflow.app`


def accounts_file(named: Path | None) -> Path:
    """The file of the accounts: named, else LUCID_MLFLOW_ACCOUNTS_FILE, else the local stack's."""
    if named is not None:
        return named
    return Path(os.environ.get(FILE_VARIABLE) or state_dir() / "secrets" / ACCOUNTS_FILE)


def serve(arguments: list[str]) -> None:
    """Replace this process by `mlflow server` with these arguments, behind the accounts."""
    Accounts(os.environ)  # its workers would start again and again on a wrong one
    binary = str(Path(sys.executable).with_name("mlflow"))
    sys.stdout.flush()
    os.execv(binary, [binary, "server", "--app-name", APP, *arguments])  # noqa: S606


def main(argv: list[str] | None = None) -> int:
    """Run one command; 0 only on success."""
    parser = CommandLine(prog="python -m mlflow_access", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("serve", help="start `mlflow server`, whose own options follow")
    adding = commands.add_parser(
        "add", help="make an account, or give it a new password, and print the password once"
    )
    adding.add_argument("name")
    adding.add_argument("--role", action="append", required=True, choices=sorted(ROLES), dest="roles")
    adding.add_argument("--cluster", help="the cluster whose releases a scheduler's account reads")
    removing = commands.add_parser("remove", help="take an account away; it is refused within a second")
    removing.add_argument("name")
    listing = commands.add_parser("list", help="print the accounts of the file, without passwords")
    for command in (adding, removing, listing):
        command.add_argument("--file", type=Path, help=f"{FILE_VARIABLE}, default: the local stack's")
    asked, for_mlflow = parser.parse_known_args(argv)
    if for_mlflow and asked.command != "serve":
        parser.error(f"unrecognized arguments: {' '.join(for_mlflow)}")
    try:
        if asked.command == "serve":
            serve(for_mlflow)
        else:
            _keep(asked, AccountsFile(accounts_file(asked.file)))
    except (LucidError, OSError) as error:
        print(f"error: {on_screen(str(error))}", file=sys.stderr)
        return ERROR
    return 0


def _keep(asked: argparse.Namespace, file: AccountsFile) -> None:
    if asked.command == "add":
        password = file.add(asked.name, tuple(asked.roles), asked.cluster)
        print(f"MLFLOW_TRACKING_USERNAME={asked.name}\nMLFLOW_TRACKING_PASSWORD={password}")
    elif asked.command == "remove":
        file.remove(asked.name)
    else:
        for account in file.read().values():
            about = f" (cluster {account.cluster})" if account.cluster else ""
            print(f"{account.name}: {', '.join(account.roles)}{about}")


if __name__ == "__main__":
    sys.exit(main())
