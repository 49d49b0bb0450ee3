"""Compiles functions, and the machine instructions that Python has no word for."""

from collections.abc import Callable
from typing import Any, TypeVar

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., Any])

# An array: C has no other word for where it begins.
Pointer = Any


def compiled(function: Function) -> Function:
    """Compile a function when it is first called by another; a division by zero is not looked for."""
    made: Function = njit(error_model="numpy")(function)
    return made


def inlined(function: Function) -> Function:
    """Compile a function into those that call it: what the arrays are is not handed over again."""
    made: Function = njit(error_model="numpy", forceinline=True)(function)
    return made


def _counting_zeros(side: str) -> Any:
    def count(typing_context: Any, word: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return getattr(builder, side)(arguments[0], ir.Constant(ir.IntType(1), 0))

        return types.int64(types.int64), generate

    return intrinsic(count)


def _bits_of() -> Any:
    def bits(typing_context: Any, number: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.bitcast(arguments[0], ir.IntType(64))

        return types.int64(types.float64), generate

    return intrinsic(bits)


bits_of = _bits_of()  # of a float: in the order of the numbers, from 0.0 on
trailing_zeros = _counting_zeros("cttz")
leading_zeros = _counting_zeros("ctlz")
