"""What this part adds to the core; what each field means says `foundation.parts.Part`."""

from foundation.parts import Command, Dag, Part

PART = Part(
    "elastic",
    "Jobs that are resized while they run, and the search of PCS' front (OSDI '24)",
    policies={
        "afs": "parts.elastic.rules.afs:Afs",
        "elastic_fifo": "parts.elastic.rules.elastic_fifo:ElasticFifo",
        "pcs": "parts.elastic.pcs:Pcs",
        "srsf": "parts.elastic.rules.srsf:Srsf",
        "themis": "parts.elastic.rules.themis:Themis",
    },
    rank_accounts={"pcs": "parts.elastic.pcs_rank:pcs_rank"},
    mlflow_experiments=("lucid-pareto",),
    work_folders=("pareto",),
    pages="parts.elastic.kept:PAGES",
    dags=(
        Dag("search_pareto_front", "parts.elastic.dag:dag", act="train", asks=True, command="lucid pareto"),
    ),
    commands=(
        Command(
            "pareto",
            "parts.elastic.command",
            "State a preference, search the configurations of PCS, look at the front, pick one.",
        ),
        Command(
            "release pick",
            "parts.elastic.pick_command",
            "Build a release of a front's point, with the models of the cluster's present release.",
        ),
    ),
)
