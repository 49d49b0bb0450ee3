"""`lucid keys`: who may sign verdicts and publications, and whom schedulers believe."""

from typing import TYPE_CHECKING, Annotated

import typer

from foundation.errors import BadInputError
from lucid_cli.output import JsonFlag, print_lines, print_table, show

if TYPE_CHECKING:
    from lucid_models.signing.key_store import KeyStore
    from lucid_models.signing.trust import Role, Trust

RoleOption = Annotated[
    str | None, typer.Option(metavar="ROLE", help="judge (signs verdicts) or publisher (what goes live).")
]
COPY = "Copy the trust file to schedulers: `lucid keys show --trust-file > trust.json`."

app = typer.Typer(
    help="Keys that sign verdicts and publications, and the trust file that schedulers go by.",
    no_args_is_help=True,
)


@app.command()
def create(
    role: RoleOption = None,
    public: Annotated[
        str | None,
        typer.Option(
            metavar="HEX", help="Trust this public key, whose private half is kept elsewhere (a KMS, an HSM)."
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Make the keys that are not there (default: both roles'), and trust them."""
    store = _store()
    if public is None:
        made = store.create(_roles(role))
    else:
        if role is None:
            raise BadInputError("--public needs a --role.", remedy="Say judge or publisher.")
        made = [store.add(_bytes(public), _roles(role)[0])]
    _present(store, as_json, [f"{len(made)} new.", COPY] if made else ["All were there."])


@app.command(name="show")
def show_keys(
    trust_file: Annotated[
        bool, typer.Option("--trust-file", help="Print the trust file, for schedulers, and nothing else.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """List the keys that are trusted: role, from when to when, revoked when."""
    store = _store()
    if trust_file:
        from lucid_models.signing.trust import read_trust

        typer.echo(read_trust(store.trust_file).to_text(), nl=False)
        return
    _present(store, as_json, [f"Trust file: {store.trust_file}", f"Private keys: {store.keys_folder}"])


@app.command()
def rotate(
    role: RoleOption = None,
    finish: Annotated[
        bool, typer.Option("--finish", help="Sign with the next key from now on, and delete the one before.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Make the next key of a role and trust it; with --finish begin to sign with it.

    Between the two give schedulers the new trust file. What the key before has signed holds on.
    """
    if role is None:
        raise BadInputError("--role is missing.", remedy="Say judge or publisher: each has its own keys.")
    store = _store()
    if finish:
        key = store.finish_rotation(_roles(role)[0])
        said = [f"{key.id[:12]}... signs now.", COPY]
    else:
        key = store.begin_rotation(_roles(role)[0])
        said = [f"{key.id[:12]}... is the next key.", COPY, f"Then: lucid keys rotate --role {role} --finish"]
    _present(store, as_json, said)


@app.command()
def revoke(
    keyid: Annotated[str, typer.Argument(metavar="ID", help="The key's id, or how it begins.")],
    as_json: JsonFlag = False,
) -> None:
    """Believe nothing that a key signed any more, whatever its date: it may have been stolen.

    Publish with another key first, else schedulers that start anew have no release to believe.
    """
    store = _store()
    key = store.revoke(keyid)
    _present(store, as_json, [f"{key.id[:12]}... is revoked.", COPY])


def _store() -> "KeyStore":
    from lucid_models.signing.installation import Signing

    return Signing.of_environment().key_store


def _roles(named: str | None) -> "tuple[Role, ...]":
    from foundation.errors import check_names
    from lucid_models.signing.trust import ROLES

    if named is None:
        return ROLES
    check_names("role", [named], ROLES)
    return tuple(role for role in ROLES if role == named)


def _bytes(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise BadInputError(f"--public {text[:80]!r} is not hexadecimal.") from None


def _present(store: "KeyStore", as_json: bool, said: list[str]) -> None:
    trust: Trust = store.trust
    rows = [{name: value for name, value in key.to_data().items() if name != "public"} for key in trust.keys]

    def people() -> None:
        short = [{**row, "id": f"{row['id'][:12]}..."} for row in rows]
        print_table(short, title=f"Keys; must sign: {_thresholds(trust)}")
        print_lines(said)

    show({"keys": rows}, as_json=as_json, people=people)


def _thresholds(trust: "Trust") -> str:
    return ", ".join(f"{count} {role}" for role, count in trust.threshold.items())
