"""Writes the module that protobuf's compiler makes of scheduler.proto (`make protobuf`).

It is kept in the tree, so that nothing is compiled where the product runs; a test fails when it is stale.
Needs grpcio-tools, which developers have.
"""

import sys
from pathlib import Path

from foundation.errors import BadInputError

ROOT = Path(__file__).parents[2]
PROTO = "live_scheduler/service/scheduler.proto"


def generate(folder: Path) -> Path:
    """Write the generated module below `folder`, as it lies below the root; return its path.

    Raises BadInputError when the compiler refuses the file (it says why on standard error).
    """
    from grpc_tools import protoc

    if protoc.main(["protoc", f"--proto_path={ROOT}", f"--python_out={folder}", str(ROOT / PROTO)]):
        raise BadInputError(f"{PROTO} cannot be compiled.", remedy="See what the compiler said.")
    return (folder / PROTO).with_name("scheduler_pb2.py")


if __name__ == "__main__":
    sys.stderr.write(f"{generate(ROOT).relative_to(ROOT)}\n")
