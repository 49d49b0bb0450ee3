"""An object file as one piece of memory, for processors of the x86-64 family: what a linker would make of it.

numba's code refers to its own parts and to a few functions of the C library by whole addresses, so linking is
to write them down. Without LLVM in memory, loading takes a millisecond and no more memory than the code.

System V ABI, AMD64 supplement, chapter 4; ELF-64 object file format, version 1.5.
"""

import ctypes
import json
import mmap
import struct
from dataclasses import asdict, dataclass
from typing import Any

_X86_64 = 62
_SYMBOLS, _RELOCATIONS, _EMPTY = 2, 4, 8  # types of sections
_WRITE, _ALLOCATE = 1, 2  # flags of sections
_WHOLE_ADDRESS = 1  # R_X86_64_64


@dataclass(frozen=True)
class CodeImage:
    """Code, where it is entered, and the addresses that it holds.

    Of its own parts as (place, offset), and of functions elsewhere as (place, name, what to add).
    """

    code: bytes
    entry: int
    own: list[tuple[int, int]]
    outside: list[tuple[int, str, int]]

    def to_bytes(self) -> bytes:
        """Return it as bytes."""
        said = {name: value for name, value in asdict(self).items() if name != "code"}
        return json.dumps(said).encode() + b"\0" + self.code

    @classmethod
    def from_bytes(cls, kept: bytes) -> "CodeImage":
        """Read it again."""
        text, _, code = kept.partition(b"\0")
        said = json.loads(text)
        own, outside = ([tuple(row) for row in said[name]] for name in ("own", "outside"))
        return cls(code, said["entry"], own, outside)

    def load(self) -> int:
        """Put it in memory for as long as the process lives; return the address at which it is entered.

        Raises OSError where memory may not be executed, AttributeError for an unknown function.
        """
        memory = mmap.mmap(-1, len(self.code))
        base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        memory[:] = self.code
        library = ctypes.CDLL(None, use_errno=True)
        for place, offset in self.own:
            struct.pack_into("<Q", memory, place, base + offset)
        for place, name, more in self.outside:
            address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
            struct.pack_into("<Q", memory, place, address + more)
        allowed = mmap.PROT_READ | mmap.PROT_EXEC
        if library.mprotect(ctypes.c_void_p(base), ctypes.c_size_t(len(self.code)), allowed):
            raise OSError(ctypes.get_errno(), "The memory of compiled code may not be executed.")
        _loaded.append(memory)
        return base + self.entry


_loaded: list[mmap.mmap] = []


def image_of(object_file: bytes, function: str) -> CodeImage | None:
    """Link an object file that has a function; None for one of another kind."""
    if object_file[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<H", object_file, 0x12) != (_X86_64,):
        return None
    sections = _sections(object_file)
    code, bases = bytearray(), {}
    for number, section in enumerate(sections):
        if section["flags"] & _ALLOCATE:
            if section["flags"] & _WRITE:
                return None
            code += bytes(-len(code) % max(1, section["align"]))
            bases[number] = len(code)
            begin, size = section["offset"], section["size"]
            code += bytes(size) if section["type"] == _EMPTY else object_file[begin : begin + size]
    symbols = _symbols(object_file, sections)
    own, outside = [], []
    for section in sections:
        if section["type"] != _RELOCATIONS or section["info"] not in bases:
            continue
        for at in range(section["offset"], section["offset"] + section["size"], 24):
            place, info, more = struct.unpack_from("<QQq", object_file, at)
            name, home, value = symbols[info >> 32]
            if info & 0xFFFFFFFF != _WHOLE_ADDRESS or (home and home not in bases):
                return None
            place += bases[section["info"]]
            if home:
                own.append((place, bases[home] + value + more))
            else:
                outside.append((place, name, more))
    entry = next(bases[home] + value for name, home, value in symbols if name == function)
    code += bytes(-len(code) % mmap.PAGESIZE)
    return CodeImage(bytes(code), entry, own, outside)


def _sections(object_file: bytes) -> list[dict[str, Any]]:
    (begin,) = struct.unpack_from("<Q", object_file, 0x28)
    each, count = struct.unpack_from("<HH", object_file, 0x3A)
    names = ("name", "type", "flags", "address", "offset", "size", "link", "info", "align", "each")
    return [
        dict(zip(names, struct.unpack_from("<IIQQQQIIQQ", object_file, begin + i * each), strict=True))
        for i in range(count)
    ]


def _symbols(object_file: bytes, sections: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    """Return the symbols: name, section (0: it is elsewhere), and offset in it."""
    (table,) = [section for section in sections if section["type"] == _SYMBOLS]
    texts = sections[table["link"]]["offset"]
    found = []
    for at in range(table["offset"], table["offset"] + table["size"], 24):
        name, _, _, home, value, _ = struct.unpack_from("<IBBHQQ", object_file, at)
        begin = texts + name
        found.append((object_file[begin : object_file.index(b"\0", begin)].decode(), home, value))
    return found
