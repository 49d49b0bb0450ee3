"""One configuration on one sample: a simulation in which every job's completion is predicted."""

from collections.abc import Iterable

from parts.elastic.allocation import Pool
from parts.elastic.engine import ElasticSimulation
from parts.elastic.pareto.objectives import STANDARD, Objective, metric_values
from parts.elastic.rules.wfq import WeightedFairQueuing, WfqConfig
from simulator.workload import Workload

PREDICTED_BY = "truth"  # by true run times, as PCS' authors search


def evaluate(
    config: WfqConfig, sample: Workload, pool: Pool, objectives: Iterable[Objective] = ()
) -> dict[str, float]:
    """Return the standard measures and those asked for, by name (`JCT:avg`, `Pred_err:p99`)."""
    simulation = ElasticSimulation(sample, pool, WeightedFairQueuing(config), predict=True)
    simulation.run()
    values = metric_values(simulation.ended)
    return {
        str(objective): objective.of(values[objective.metric])
        for objective in dict.fromkeys((*STANDARD, *objectives))
    }
