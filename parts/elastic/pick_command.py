"""`lucid release pick`: a release of a point of a front."""

from typing import Annotated

import typer

from foundation.errors import BadInputError
from foundation.site import Site
from lucid_cli.option_groups import with_options
from lucid_cli.options import AsOfOption, HoldOutOption, LakeOption, ReleasedCluster, lake_or_default
from lucid_cli.output import JsonFlag
from lucid_cli.release import present


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(pick)


@with_options(ReleasedCluster)
def pick(
    released: ReleasedCluster,
    front_id: Annotated[str, typer.Argument(metavar="ID", help="A point of a Pareto front, such as c7.")],
    lake: LakeOption = None,
    study: Annotated[
        str | None, typer.Option(metavar="DIR", help="The search's folder or URI; default: see --run.")
    ] = None,
    run: Annotated[
        str | None, typer.Option(metavar="ID", help="Its run in MLflow; default: the cluster's newest.")
    ] = None,
    price: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="PCT",
            help="What predictability may cost in mean JCT at the gate; default: what the point costs beside "
            "the front's shortest, and 10.",
        ),
    ] = None,
    hold_out_days: HoldOutOption = 14,
    as_of: AsOfOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Build a release of a front's point, with the models of the cluster's present release."""
    from parts.elastic.pareto.presented import read_front
    from parts.elastic.pareto.release_choice import build_picked_release
    from parts.elastic.pareto.report import newest_front
    from pipeline.training.windows import read_as_of
    from pipeline.validation.held_out_days import HeldOutDays

    if study is not None and run is not None:
        raise BadInputError("Two fronts are named.", remedy="Give --study or --run.")
    tracking, cluster = released.find()
    if study is not None:
        front, run_id = read_front(study), None
    else:
        front, run_id = newest_front(Site(registry=tracking, cluster=cluster), run_id=run)
    release = build_picked_release(
        Site(lake_or_default(lake), tracking, cluster),
        front=front,
        front_id=front_id,
        run_id=run_id,
        held_out=HeldOutDays(hold_out_days, read_as_of(as_of)),
        jct_price_pct=price,
    )
    present(release, as_json)
