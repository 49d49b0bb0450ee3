"""PCS' preference interface as Python (PCS, section 3.2): state a preference, look at the front, pick.

pcs = PcsController(collected, folder="pareto")
pcs.set_preference([("JCT", "avg"), ("Pred_err", "p99")])
front = pcs.update_pareto_front()
pcs.set_wfq_config(front.points[0].config)
"""

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from pathlib import Path

from foundation.errors import NotFoundError
from foundation.progress import Progress, silent
from pipeline.search.pareto.inputs import Collected
from pipeline.search.pareto.local import run_search
from pipeline.search.pareto.presented import Front, present
from pipeline.search.pareto.study import SearchSpec, plan_study
from simulator.elastic.pareto.objectives import Objective, preference_of
from simulator.elastic.rules.wfq import WeightedFairQueuing, WfqConfig

# What holds until an operator picks: one class without a cap, which is first come first served.
FIFO_CONFIG = WfqConfig((inf,), (1.0,), 0.0, 1.0)


class PcsController:
    """An operator's session with one workload: its preference, its front, and `rule`, that of the
    configuration in use.
    """

    def __init__(
        self,
        collected: Collected,
        *,
        folder: str | Path,
        name: str = "workload",
        spec: SearchSpec | None = None,
        workers: int = 1,
        progress: Progress = silent,
    ) -> None:
        """Searches are kept below `folder`, one for each preference and workload, and go on where they ended.

        `spec` says how much is searched; its preference holds until `set_preference` is called.
        """
        self.collected = collected
        self._spec = spec or SearchSpec()
        self._folder = str(folder)
        self._name = name
        self._workers = workers
        self._progress = progress
        self._front: Front | None = None
        self.rule = WeightedFairQueuing(FIFO_CONFIG)

    @property
    def preference(self) -> tuple[Objective, ...]:
        """What is preferred now."""
        return preference_of(tuple(self._spec.preference))

    def set_preference(self, objectives: Sequence[tuple[str, str] | str | Objective]) -> None:
        """State what is to be small: pairs of a metric (JCT, unfairness, Pred_err) and avg or a percentile.

        A metric may come with several measures. Raises UnknownNameError and BadInputError.
        """
        self._spec = replace(self._spec, preference=tuple(map(str, preference_of(objectives))))
        self._front = None

    def update_pareto_front(self) -> Front:
        """Search the configurations on which no other improves in all that is preferred."""
        study = plan_study(self.collected, self._spec, folder_uri=self._folder, name=self._name)
        run_search(study, workers=self._workers, progress=self._progress)
        self._front = present(study)
        return self._front

    @property
    def pareto_front(self) -> Front:
        """The front as of the last update; raises NotFoundError before it."""
        if self._front is None:
            raise NotFoundError(
                "There is no front for this preference yet.", remedy="Call update_pareto_front() first."
            )
        return self._front

    def set_wfq_config(self, config: WfqConfig | str) -> None:
        """Use a configuration from now on: any, or a point of the front by its id."""
        if isinstance(config, str):
            config = self.pareto_front.point(config).config
        self.rule = WeightedFairQueuing(config)
