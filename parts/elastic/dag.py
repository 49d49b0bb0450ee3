"""### Completion times that can be predicted: search, look, pick

What is the shortest mean completion time, and what does it cost to know beforehand when a job will be done?
There is no one answer, so this DAG looks for all good ones. It tries many configurations of PCS (weighted
fair queuing over size classes) on samples of the cluster's jobs from before the held-out days, simulated side
by side, as many tasks as the executor has room for. What is left is the *front*: configurations of which none
is better in everything you prefer than another, measured on samples that chose none of them. The same form
again only computes what is missing.

**What to do with it.** Open *Page* on the task `collect_front`: an interactive picture; each point has an
id. Further left means shorter completion times, further down means predictions that hold better. Most fronts
have a bend where a little of the one buys a lot of the other: a good place to begin. Then answer *Required
Actions* on `request_choice` with the point that you want, or with none of them. Or give the id as *Pick* in
the form of another run, which then asks no one.

**What happens then.** A release is built that runs this configuration with the models of the cluster's
present release: the challenger. `validate_release` replays the held-out days with it, with the champion and
with FIFO. It must predict better than the champion, or cost no more than it; a clear gain may cost as much
of the mean completion time as the point did on the front, or as *Price* says; every other limit of the gate
holds as ever. What it approves, `publish_release` publishes. The champion is left alone until then, and
`rollback_release` goes back.
"""

from airflow.sdk import DAG

from lucid_airflow import form_fields
from lucid_airflow.assets import RELEASE_CHALLENGER
from lucid_airflow.dag_defaults import APPROVAL_TIMEOUT, every_dag
from lucid_airflow.links import MlflowLink, PageLink, ReleaseLink
from lucid_airflow.operators.step import StepOperator
from lucid_airflow.study_stages import StudyStage, rounds, study_stages
from parts.elastic.operators import RequestChoiceOperator

MOST_ROUNDS = 12

with DAG(
    dag_id="search_pareto_front",
    dag_display_name="Search a Pareto front",
    description="Completion times that can be predicted: search, look, pick.",
    doc_md=__doc__,
    schedule=None,
    **every_dag("simulator", "release", hours=24, approved=True),
    params={
        "cluster": form_fields.the_cluster("To build a release of a point, it must have one already."),
        "preference": form_fields.choices(
            "Preference",
            "What is to be small, two at least: completion times (JCT), errors of their predictions "
            "(Pred_err), unfairness.",
            [f"{what}:{of}" for what in ("JCT", "Pred_err", "unfairness") for of in ("avg", "p95", "p99")],
            form_fields.OBJECTIVE,
            default=["JCT:avg", "Pred_err:avg"],
            at_least=2,
        ),
        "pick": form_fields.text(
            "Pick",
            "Its release is built at once. Empty: a person is asked, with the front to look at.",
            form_fields.FRONT_POINT,
        ),
        "jct_price_pct": form_fields.number(
            "Price (% of mean JCT)",
            "What predictability may cost at the gate. Empty: what the point "
            "costs beside the shortest of the front, and 10.",
            default=None,
            least=0,
            most=10_000,
        ),
        **form_fields.folded(
            "How much is searched",
            {
                "rounds": form_fields.count(
                    "Rounds", "Each learns from those before it.", default=10, least=1, most=MOST_ROUNDS
                ),
                "round_size": form_fields.count("Configurations a round", "", default=37, least=1, most=500),
                "jobs_per_sample": form_fields.count(
                    "Jobs a sample", "Arrivals in a row.", default=2_000, least=10, most=100_000
                ),
                "samples": form_fields.count(
                    "Samples", "That configurations near the front are tried on.", default=6, least=1, most=50
                ),
                "held_out_samples": form_fields.count(
                    "Fresh samples",
                    "That the front is shown on and that choose nothing.",
                    default=6,
                    least=1,
                    most=100,
                ),
                "evaluations_per_task": form_fields.count(
                    "Simulations a task", "One after another.", default=8, least=1, most=500
                ),
                "seed": form_fields.seed("Of samples and optimiser."),
            },
        ),
        **form_fields.folded(
            "Which jobs, and how they scale",
            {
                "virtual_cluster": form_fields.text(
                    "Virtual cluster", "Its jobs and GPUs alone. Empty: all as one pool."
                ),
                "scaling": form_fields.option(
                    "Jobs without a speed-up curve",
                    "How fast they are on fewer GPUs.",
                    {
                        "rigid": "rigid: all of their GPUs or none, as the gate replays them",
                        "linear": "linear: any number of GPUs, twice as many twice as fast",
                    },
                    default="rigid",
                ),
                "hold_out_days": form_fields.hold_out_days(
                    "The last days, which the gate judges on: not read. Empty: as the release was built.",
                    default=None,
                ),
                "as_of": form_fields.as_of("As if the log ended here (UTC). Empty: its end."),
            },
        ),
    },
) as dag:
    plan_search = StepOperator(
        task_id="plan_search",
        step="parts.elastic.steps:plan_search",
        arguments={
            **form_fields.answers(dag, "cluster", "rounds", "round_size"),
            "asked": form_fields.answers(
                dag,
                "preference",
                "jobs_per_sample",
                "samples",
                "held_out_samples",
                "scaling",
                "virtual_cluster",
                "hold_out_days",
                "as_of",
                "seed",
            ),
        },
        multiple_outputs=True,
    )
    study_uri = plan_search.output["study_uri"]
    collect_front = StepOperator(
        task_id="collect_front",
        step="parts.elastic.steps:collect_front",
        arguments={"study_uri": study_uri, "cluster": plan_search.output["cluster"]},
        links=[PageLink(), MlflowLink()],
        multiple_outputs=True,
    )
    request_choice = RequestChoiceOperator(
        task_id="request_choice",
        subject="Which point of the front of {{ ti.xcom_pull('plan_search', key='cluster') }} "
        "becomes a release?",
        body="{{ ti.xcom_pull('collect_front', key='summary') }}",
        study_uri=study_uri,
        cluster=plan_search.output["cluster"],
        pick=dag.param("pick"),
        response_timeout=APPROVAL_TIMEOUT,
    )
    build_release = StepOperator(
        task_id="build_release",
        step="parts.elastic.steps:build_release",
        arguments={
            "study_uri": study_uri,
            "front_id": request_choice.output["front_id"],
            "run_id": collect_front.output["run_id"],
            "cluster": plan_search.output["cluster"],
            "lake_uri": plan_search.output["lake_uri"],
            "hold_out_days": plan_search.output["hold_out_days"],
            **form_fields.answers(dag, "as_of", "jct_price_pct"),
        },
        links=[ReleaseLink(), MlflowLink()],
        outlets=[RELEASE_CHALLENGER],
    )

    study_stages(
        [
            *rounds(MOST_ROUNDS),
            StudyStage("confirm", 0, "near_front"),
            StudyStage("hold_out", 0, "fresh_samples"),
        ],
        after=plan_search,
        before=collect_front,
        study="parts.elastic.pareto.study:ParetoSearch",
        study_uri=study_uri,
        rounds=plan_search.output["rounds"],
        per_task=dag.param("evaluations_per_task"),
    )
    collect_front >> request_choice >> build_release
