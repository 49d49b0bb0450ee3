"""What this part adds to the core; what each field means says `foundation.parts.Part`."""

from foundation.parts import Command, Dag, Part

EXPERIMENT = "lucid-characterisation"

PART = Part(
    "characterisation",
    "The report of a cluster's log (Helios, section 3)",
    commands=(
        Command(
            "characterise",
            "parts.characterisation.command",
            "Characterise a cluster by its log: the figures, tables and implications of Helios, and more.",
        ),
    ),
    mlflow_experiments=(EXPERIMENT,),
    dags=(Dag("characterise_cluster", "parts.characterisation.dag:dag", act="study"),),
    pages="parts.characterisation.kept:PAGES",
)
