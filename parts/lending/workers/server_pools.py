"""The two kinds of servers that training jobs run on."""

from enum import StrEnum


class ServerPool(StrEnum):
    """Training's own servers, and those of inference that are on loan to it."""

    TRAINING = "training"
    ON_LOAN = "on_loan"
