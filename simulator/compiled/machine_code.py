"""The machine code of the loop: made once by numba, kept on disk, and loaded without it.

numba takes a second to import, and a minute to compile. What it makes is plain machine code that needs
neither numba nor Python, so it is kept as that: llvmlite, which numba is built on, puts it in memory in a
tenth of a second. A file is named after all that it depends on (the source, numba, LLVM, the processor), so
that code of another version is never served; it is checked against its own digest, and read only where no
other user could have written it.
"""

import ctypes
import hashlib
import os
import platform
import stat
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from tempfile import NamedTemporaryFile

import numpy as np

from simulator.compiled import arrays
from simulator.compiled.arrays import TYPES

CACHE_VARIABLE = "LUCID_CACHE_DIR"
_LOOPS = Path(__file__).parent / "loops"
_DIGEST_BYTES = 32

# (moments, arrays by name) -> what the loop answers
Advance = Callable[[int, Mapping[str, np.ndarray]], int]

_kept: list[object] = []  # what the loaded code lives in


def available() -> bool:
    """Whether numba is installed; it is not imported."""
    return find_spec("numba") is not None and find_spec("llvmlite") is not None


def cache_folder() -> Path:
    """Return where machine code is kept."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lucid"


def can_be_kept() -> bool:
    """Whether what is compiled can be written: without, each process would compile it anew."""
    try:
        folder = cache_folder()
    except RuntimeError:  # an account without a home
        return False
    while not folder.exists():
        folder = folder.parent
    return os.access(folder, os.W_OK | os.X_OK)


@cache
def _identity() -> str:
    """Name everything that the code depends on."""
    import llvmlite.binding as llvm

    try:
        numba = version("numba")
    except PackageNotFoundError:
        numba = "unknown"
    said = [
        numba,
        *map(str, llvm.llvm_version_info),
        llvm.get_default_triple(),
        llvm.get_host_cpu_name(),
        llvm.get_host_cpu_features().flatten(),
        platform.machine(),
        *sorted(f"{name}={value}" for name, value in os.environ.items() if name.startswith("NUMBA_")),
    ]
    digest = hashlib.sha256("\n".join(said).encode())
    for source in (Path(arrays.__file__), *sorted(_LOOPS.glob("*.py"))):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:32]


def kept_file() -> Path:
    """Return the file that has the code of this version, or will have it."""
    return cache_folder() / f"replay-{_identity()}.code"


def _read(path: Path) -> bytes | None:
    """Return the code in a file; None where none is whole, and the user's or root's alone to write."""
    try:
        with path.open("rb") as file:
            about = os.fstat(file.fileno())
            if about.st_uid not in (0, os.geteuid()) or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return None
            content = file.read()
    except OSError:
        return None
    digest, code = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    return code if hashlib.sha256(code).digest() == digest else None


def _kept_code() -> bytes | None:
    try:
        return _read(kept_file())
    except Exception:  # an account without a home; an llvmlite that cannot be loaded
        return None


def _write(path: Path, code: bytes) -> None:
    """Keep the code; a folder that cannot be written costs time only."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with NamedTemporaryFile(dir=path.parent, delete=False) as file:
            made = Path(file.name)
            try:
                file.write(hashlib.sha256(code).digest() + code)
                file.flush()
                made.replace(path)
            except BaseException:
                made.unlink()
                raise
    except OSError:
        return


def _compile() -> bytes:
    """Let numba make the code: the name of the function, and an object file."""
    from numba import njit, types

    from simulator.compiled.loops.entry import advance

    taken = [types.CPointer(getattr(types, kind)) for kind in TYPES.values()]
    assert list(signature(advance).parameters)[1:] == list(TYPES)  # noqa: S101
    made = njit(
        types.int64(types.int64, *taken),
        no_cpython_wrapper=True,
        no_cfunc_wrapper=True,
        error_model="numpy",
    )(advance)
    (compiled,) = made.overloads.values()
    name: bytes = compiled.fndesc.llvm_func_name.encode()
    return name + b"\0" + bytes(compiled.library._get_compiled_object())


def _load(code: bytes) -> Advance:
    """Put the code in memory."""
    import llvmlite.binding as llvm

    name, _, compiled = code.partition(b"\0")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    engine = llvm.create_mcjit_compiler(
        llvm.parse_assembly(""), llvm.Target.from_default_triple().create_target_machine()
    )
    engine.add_object_file(llvm.ObjectFileRef.from_data(compiled))
    engine.finalize_object()
    _kept.append(engine)
    address = engine.get_function_address(name.decode())
    if not address:
        raise ImportError("the code kept has no loop")
    # numba's convention: a status, and pointers to the result and to an exception, of which there are none.
    function = ctypes.CFUNCTYPE(
        ctypes.c_int32, *[ctypes.c_void_p] * 2, ctypes.c_int64, *[ctypes.c_void_p] * len(TYPES)
    )(address)

    def advance(moments: int, of_replay: Mapping[str, np.ndarray]) -> int:
        answer, error = ctypes.c_int64(), ctypes.c_void_p()
        pointers = [of_replay[name].ctypes.data for name in TYPES]
        if function(ctypes.addressof(answer), ctypes.addressof(error), moments, *pointers):
            raise RuntimeError("The compiled loop of a replay raised an error, which it never should.")
        return answer.value

    return advance


@cache
def loop() -> Advance | None:
    """Return the loop, compiled now unless it has been before; None, and a warning, where that fails."""
    try:
        code = _kept_code()
        if code is None:
            code = _compile()
            if can_be_kept():
                _write(kept_file(), code)
        return _load(code)
    except Exception as error:  # numba's errors have no base of their own; Python can do without
        warnings.warn(
            f"Replays are not made faster: no machine code ({type(error).__name__}: {error}).", stacklevel=2
        )
        return None


def is_loaded() -> bool:
    """Whether the loop is in memory."""
    return loop.cache_info().currsize > 0


def is_kept() -> bool:
    """Whether the loop has been compiled before."""
    return _kept_code() is not None
