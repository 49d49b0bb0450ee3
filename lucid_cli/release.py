"""`lucid release`: build, prove, publish, roll back."""

from getpass import getuser
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foundation.errors import NotFoundError
from foundation.site import Site
from lucid_cli import release_validation
from lucid_cli.option_groups import with_options
from lucid_cli.options import (
    AsOfOption,
    HoldOutOption,
    LakeOption,
    PolicySettingOption,
    ReleasedCluster,
    ReleaseVersionOption,
    TrackingOption,
    lake_or_default,
    tracking_or_default,
)
from lucid_cli.output import (
    JsonFlag,
    print_facts,
    print_lines,
    print_table,
    say,
    show,
    to_jsonable,
)
from lucid_cli.part_options import ModelVersionOption, ReleaseOptions, with_part_options
from lucid_cli.setting_pairs import named_values
from lucid_models.releases.manifest import DEFAULT_POLICY

if TYPE_CHECKING:
    from lucid_models.releases.store import ReleaseInfo

ReasonOption = Annotated[str, typer.Option(help="Why; kept with the release that goes live.")]

app = typer.Typer(
    help="A release pins the three models and the settings that were proven together.", no_args_is_help=True
)


def present(release: "ReleaseInfo", as_json: bool) -> None:
    """Print a release, for people or as JSON."""
    facts = release.to_data()

    def people() -> None:
        from pipeline.overview.release_contents import not_defaults

        # A release that was published without a word has no reason, the first one nothing before it.
        went_live = {name: value for name, value in (facts["went_live"] or {}).items() if value}
        shown = _row(facts) | {
            "models": [
                f"{kind}: {pin['name']} version {pin['version']}, sha256 {pin['digest'][:12]}"
                for kind, pin in facts["models"].items()
            ],
            "policy": facts["policy"],
            "settings that are not defaults": not_defaults(facts["policy"], facts["settings"]) or None,
            **({"choice": facts["choice"]} if facts["choice"] else {}),
            **release.parts,
            "provenance": facts["provenance"],
            **({"went_live": went_live} if went_live else {}),
            "says": (facts["verdict"] or {}).get("sentence"),
        }
        print_facts(shown, title=f"{facts['name']} version {facts['version']}")
        if facts["moved"]:
            print_lines([facts["moved"]])

    show(facts, as_json=as_json, people=people)


def _row(release: dict[str, Any]) -> dict[str, Any]:
    """What fits into one row of a table; --json says everything."""
    return {
        "version": release["version"],
        "aliases": release["aliases"],
        "cluster": release["cluster"],
        "policy": release["policy"],
        "created": release["created"],
        "models": [f"{kind} {pin['version']}" for kind, pin in release["models"].items()],
        "trained_until": (release["training"] or {}).get("until"),
        "verdict": (release["verdict"] or {}).get("status"),
    }


@app.command()
@with_options(ReleasedCluster)
@with_part_options("release build")
def build(
    of_parts: tuple[ReleaseOptions, ...],
    released: ReleasedCluster,
    lake: LakeOption = None,
    hold_out_days: HoldOutOption = 14,
    as_of: AsOfOption = None,
    packing: ModelVersionOption = None,
    throughput: ModelVersionOption = None,
    duration: ModelVersionOption = None,
    setting: PolicySettingOption = None,
    policy: Annotated[str, typer.Option(help="What the release runs.")] = DEFAULT_POLICY,
    allow_simulated_profiles: Annotated[
        bool,
        typer.Option(
            "--allow-simulated-profiles",
            help="Jobs may share GPUs on a real log although the packing model learned from simulated "
            "profiles; without it they do not, until GPUs are measured.",
        ),
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Pin model versions, digests, a policy and its settings in a new release: the challenger."""
    from lucid_models.releases.lifecycle import build_release
    from pipeline.release.order_only import decide_sharing
    from pipeline.release.part_settings import part_of_release
    from pipeline.release.release_settings import allowing_simulated, pinned_settings
    from pipeline.training.windows import read_as_of, training_window_end
    from pipeline.validation.held_out_days import record_held_out

    pinned = {
        "packing": packing,
        "throughput": throughput,
        "duration": duration,
        **{each.kind: each.version() for each in of_parts},
    }
    versions = {model: version for model, version in pinned.items() if version is not None}
    parts = {each.field: chosen for each in of_parts if (chosen := each.settings()) is not None}
    lake_uri = lake_or_default(lake)
    tracking, cluster = released.find()
    pinned_parts: dict[str, dict[str, Any]] = {}
    for field, chosen in parts.items():
        of_release = part_of_release(field)
        if of_release.check_lake is not None:
            of_release.check_lake(lake_uri, cluster)
        pinned_parts[field] = of_release.pinned(chosen)
    stated = named_values(setting, "--setting", "sharing=apathetic")
    sharing = decide_sharing(
        Site(registry=tracking, cluster=cluster),
        allowing_simulated(pinned_settings(stated, policy), allow=allow_simulated_profiles),
        policy,
        versions=versions,
        stated=stated,
    )
    release = build_release(
        tracking_uri=tracking,
        cluster=cluster,
        versions=versions or None,
        policy=policy,
        settings=sharing.settings,
        parts=pinned_parts,
        training_until=training_window_end(
            Site(lake=lake_uri, cluster=cluster), hold_out_days, read_as_of(as_of)
        ),
    )
    record_held_out(Site(lake=lake_uri, registry=tracking), release, hold_out_days)
    if sharing.sentence:
        say(sharing.sentence)
    present(release, as_json)


release_validation.register(app)


@app.command()
@with_options(ReleasedCluster)
def publish(
    released: ReleasedCluster,
    version: ReleaseVersionOption = None,
    replaces: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="The release that is live as you know it (0: none); nothing is published if another one is.",
        ),
    ] = None,
    reason: ReasonOption = "",
    as_json: JsonFlag = False,
) -> None:
    """Move a cluster's `champion` to an approved release; its schedulers pull it at their next poll."""
    from lucid_models.releases.lifecycle import publish_release

    tracking, cluster = released.find()
    release = publish_release(
        tracking_uri=tracking,
        cluster=cluster,
        version=version,
        replaces=replaces,
        by=getuser(),
        because=reason,
    )
    present(release, as_json)


@app.command()
@with_options(ReleasedCluster)
def rollback(
    released: ReleasedCluster,
    reason: ReasonOption = "",
    as_json: JsonFlag = False,
) -> None:
    """Move a cluster's `champion` back to the previous release."""
    from lucid_models.releases.lifecycle import rollback_release

    tracking, cluster = released.find()
    release = rollback_release(tracking_uri=tracking, cluster=cluster, by=getuser(), because=reason)
    present(release, as_json)


@app.command()
@with_options(ReleasedCluster)
def renew(released: ReleasedCluster, as_json: JsonFlag = False) -> None:
    """Sign anew, with a later expiry, that a cluster's `champion` is live (the DAG renew_publications)."""
    from lucid_models.releases.publications import renew_champion

    tracking, cluster = released.find()
    publication = to_jsonable(renew_champion(tracking_uri=tracking, cluster=cluster))
    facts = {name: publication[name] for name in ("sequence", "at", "expires")}
    show(facts, as_json=as_json, people=lambda: print_facts(facts, title=f"Publication of {cluster}"))


@app.command()
@with_options(ReleasedCluster)
def history(released: ReleasedCluster, as_json: JsonFlag = False) -> None:
    """Say what was live of a cluster, the newest first: since when, who asked, who approved, and why."""
    from lucid_models.registry import Registry
    from lucid_models.releases.publication_history import read_history
    from lucid_models.signing.installation import Signing

    tracking, cluster = released.find()
    past = [to_jsonable(each) for each in read_history(Registry(tracking), cluster, Signing.of_environment())]

    def people() -> None:
        rows = [
            {
                **{name: each["publication"][name] for name in ("at", "kind", "replaces", "sequence")},
                "version": each["publication"]["release"]["version"],
                **{name: each["publication"][name] for name in ("asked_by", "approved_by", "because")},
                "problem": each["problem"],
            }
            for each in past
        ]
        if not rows:
            print_lines([f"Nothing of {cluster} was signed as live."])
            return
        print_table(rows, title=f"What was live of {cluster}")

    show({"history": past}, as_json=as_json, people=people)


@app.command(name="show")
@with_options(ReleasedCluster)
def show_command(
    released: ReleasedCluster,
    alias: Annotated[str, typer.Option(help="champion, challenger or previous.")] = "champion",
    as_json: JsonFlag = False,
) -> None:
    """Say what a release pins and what the gate said of it."""
    from lucid_models.releases.lifecycle import show_release

    tracking, cluster = released.find()
    present(show_release(tracking_uri=tracking, cluster=cluster, alias=alias), as_json)


@app.command(name="list")
def list_command(
    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="NAME", help="Whose releases; default: all.")
    ] = None,
    tracking_uri: TrackingOption = None,
    as_json: JsonFlag = False,
) -> None:
    """List the releases, the newest first; with --json as `releases`, each in the shape of `show`."""
    from lucid_models.releases.lifecycle import list_releases

    releases = [
        release.to_data()
        for release in list_releases(tracking_uri=tracking_or_default(tracking_uri), cluster=cluster)
    ]
    if not releases and not as_json:
        raise NotFoundError(
            "There is no release yet.", remedy="Build one: lucid release build --cluster NAME."
        )
    show(
        {"releases": releases},
        as_json=as_json,
        people=lambda: print_table([_row(found) for found in releases], title="Releases"),
    )
