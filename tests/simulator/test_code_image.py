"""Machine code is linked by hand as LLVM links it, or left to LLVM."""

import ctypes
import platform

import pytest

from simulator.compiled import machine_code
from simulator.compiled.code_image import CodeImage, image_of

llvm = pytest.importorskip("llvmlite.binding")

# One that reads a table of its own, one that calls the other, and one that calls the C library.
CODE = """
@table = private constant [4 x i64] [i64 3, i64 5, i64 7, i64 11]

define i64 @look_up(i64 %at) noinline nounwind {
  %place = getelementptr [4 x i64], ptr @table, i64 0, i64 %at
  %found = load i64, ptr %place
  ret i64 %found
}

declare i64 @labs(i64)

define i64 @answer(i64 %at) nounwind {
  %found = call i64 @look_up(i64 %at)
  %negative = sub i64 0, %found
  %positive = call i64 @labs(i64 %negative)
  %twice = mul i64 %positive, 2
  ret i64 %twice
}
"""


def compiled(code=CODE, codemodel="large"):
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(codemodel=codemodel)
    return machine.emit_object(llvm.parse_assembly(code))


def answers(address):
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)
    return [function(at) for at in range(4)]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="LLVM links for other processors")
def test_an_image_is_read_and_entered():
    image = image_of(compiled(), "answer")
    assert image is not None
    again = CodeImage.from_bytes(image.to_bytes())
    assert again == image
    assert answers(again.load()) == answers(image.load()) == [6, 10, 14, 22]


def test_llvm_links_what_is_no_image():
    assert answers(machine_code._linked(b"answer\0" + compiled())) == [6, 10, 14, 22]


def test_other_kinds_of_files_are_no_images():
    assert image_of(b"", "answer") is None
    assert image_of(b"\xcf\xfa\xed\xfe" + bytes(100), "answer") is None
    writable = CODE.replace("private constant", "global")
    assert image_of(compiled(writable), "answer") is None
