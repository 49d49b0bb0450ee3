"""The tests' own process, logged in at the MLflow of a stack."""

import pytest

from local_stack.stack_config import ADMIN, LOGIN_VARIABLES, StackConfig, mlflow_password


def admin_login(config: StackConfig) -> tuple[str, str]:
    return ADMIN, mlflow_password(config, ADMIN)


def log_in_until_the_end(config: StackConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, value in zip(LOGIN_VARIABLES, admin_login(config), strict=True):
        monkeypatch.setenv(variable, value)
