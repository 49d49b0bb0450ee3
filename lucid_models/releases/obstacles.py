"""What stands against publishing a release: one list, for the person who approves and for publishing."""

from collections.abc import Callable

from foundation.errors import BadInputError, LucidError, NotFoundError, ReleaseRefusedError
from lucid_models.registry import RegisteredVersion, Registry
from lucid_models.releases.files import load_release_scorers
from lucid_models.releases.publications import check_judgement
from lucid_models.releases.store import check_not_rolled_back, check_provenance, check_verdict, read_release
from lucid_models.signing.installation import Signing


def publication_obstacles(
    registry: Registry, release: RegisteredVersion, *, named: bool, signing: Signing | None = None
) -> list[LucidError]:
    """Every reason for which a release cannot become the champion now; empty when there is none.

    `signing`: the keys that must have signed its verdict; None: as the environment says. `named`: a person
    named this very version, which is how one that was rolled back goes live again.
    """

    def check_contents() -> None:
        manifest, files = read_release(registry, release)
        check_provenance(manifest, release.version)
        load_release_scorers(manifest, files)

    signing = signing or Signing.of_environment()
    checks: list[Callable[[], None]] = [
        lambda: check_verdict(registry, release),
        lambda: check_judgement(release, signing),
        check_contents,
    ]
    if not named:
        checks.insert(0, lambda: check_not_rolled_back(release))
    return [problem for check in checks if (problem := _problem(check)) is not None]


def check_not_expired(cluster: str, version: int, *, replaces: int, live: int | None) -> None:
    """Raise ReleaseRefusedError when another release is live than the one that a request to publish was to
    replace (0: none): whoever asked, or approved, weighed `version` against that one.
    """
    if replaces == (live or 0):
        return
    was = f"in place of release {replaces}" if replaces else "when none was"
    now = "nothing is" if live is None else f"release {live} is"
    command = f"lucid release publish --cluster {cluster} --version {version} --replaces {live or 0}"
    raise ReleaseRefusedError(
        f"The request to publish release {version} of {cluster} has expired: it was to go live {was}, and "
        f"{now} live now.",
        remedy="Weigh it against what is live and ask again: on the page Lucid, in the form of "
        f"publish_release or by `{command}`.",
    )


def _problem(check: Callable[[], None]) -> LucidError | None:
    try:
        check()
    except (ReleaseRefusedError, NotFoundError, BadInputError) as error:
        return error
    return None
