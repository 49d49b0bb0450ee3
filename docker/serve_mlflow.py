"""Start MLflow with its auth app, which reads its admin from a file: made here from the environment."""

import configparser
import os
import sys
import tempfile
from pathlib import Path


def write_auth_config(environment: dict[str, str], folder: Path) -> Path:
    """Write the auth app's configuration (it holds the admin's password) for the owner's eyes only."""
    config = configparser.ConfigParser(interpolation=None)
    config["mlflow"] = {
        "default_permission": "READ",
        "database_uri": environment["MLFLOW_AUTH_DATABASE_URI"],
        "admin_username": environment["MLFLOW_ADMIN_USERNAME"],
        "admin_password": environment["MLFLOW_ADMIN_PASSWORD"],
    }
    file = folder / "basic_auth.ini"
    with os.fdopen(
        os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8"
    ) as output:
        config.write(output)
    return file


def main() -> None:
    """Replace this process by the server."""
    config = write_auth_config(dict(os.environ), Path(tempfile.mkdtemp()))
    os.environ["MLFLOW_AUTH_CONFIG_PATH"] = str(config)
    arguments = ["mlflow", "server", "--app-name", "basic-auth", "--host", "0.0.0.0", "--port", "5000"]  # noqa: S104
    sys.stdout.flush()
    os.execvp("mlflow", [*arguments, "--serve-artifacts"])  # noqa: S606


if __name__ == "__main__":
    main()
