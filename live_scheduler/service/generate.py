"""Writes the modules that protobuf's compiler makes of scheduler.proto (`make protobuf`).

They are kept in the tree, so that nothing is compiled where the product runs; a test fails when they are
stale. Needs grpcio-tools, which developers have.
"""

import sys
from pathlib import Path

from foundation.errors import BadInputError

ROOT = Path(__file__).parents[2]
PROTO = "live_scheduler/service/scheduler.proto"


def generate(folder: Path) -> list[Path]:
    """Write the generated modules below `folder`, as they lie below the root; return their paths.

    Raises BadInputError when the compiler refuses the file (it says why on standard error).
    """
    from grpc_tools import protoc

    kinds = [f"--{kind}_out={folder}" for kind in ("python", "grpc_python")]
    if protoc.main(["protoc", f"--proto_path={ROOT}", *kinds, str(ROOT / PROTO)]):
        raise BadInputError(f"{PROTO} cannot be compiled.", remedy="See what the compiler said.")
    return sorted((folder / PROTO).parent.glob("scheduler_pb2*.py"))


if __name__ == "__main__":
    for path in generate(ROOT):
        sys.stderr.write(f"{path.relative_to(ROOT)}\n")
