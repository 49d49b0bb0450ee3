"""The mean temperature of each hour of the day."""

from collections.abc import Mapping
from typing import Any, Self

from lucid_models.catalogue import CatalogueEntry
from lucid_models.model_format import make_document


class HeatModel:
    """Temperature (degrees Celsius) by hour of the day."""

    kind = "heat"

    def __init__(self, by_hour: list[float]) -> None:
        self.by_hour = by_hour

    @classmethod
    def fit(cls, hours: list[int], celsius: list[float]) -> Self:
        """Learn the mean of each hour, shape (24,); an hour without a value has the mean of all."""
        usual = sum(celsius) / len(celsius)
        at = [[c for h, c in zip(hours, celsius, strict=True) if h == hour] for hour in range(24)]
        return cls([sum(each) / len(each) if each else usual for each in at])

    def predict(self, hour: int) -> float:
        """The temperature to expect."""
        return self.by_hour[hour]

    def explain_global(self) -> dict[str, Any]:
        """The model is its own explanation."""
        return {"by_hour": self.by_hour}

    def to_data(self) -> dict[str, Any]:
        """The saved form."""
        return make_document(self.kind, {"by_hour": self.by_hour})

    @classmethod
    def from_data(cls, document: Mapping[str, Any]) -> Self:
        """Read the saved form."""
        return cls(list(document["model"]["by_hour"]))


ENTRY = CatalogueEntry(
    kind="heat",
    title="Heat Model",
    predicts="temperature of GPUs by hour of the day",
    command="heat",
    learner="parts.heat.model:HeatModel",
    scorer="parts.heat.model:HeatModel.from_data",
    frame="",
    lower_is_better="mae",
)
