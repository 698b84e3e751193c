"""Finding a C compiler, and the flags that it takes on this machine."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from smelt.config import settings
from smelt.cost.profile import profile
from smelt.diskcache import disk_cache
from smelt.errors import CompilerError

_CANDIDATES: Final = ("cc", "clang", "gcc")
INSTALL_HINT: Final = "Install a C compiler (gcc or clang), or: pip install ziglang"
_VERSION_TIME_LIMIT: Final = 20.0  # seconds

# Never -ffast-math: besides being wrong it halves the fused multiply-adds of a tile kernel. The vectorizer is off
# because kernels arrive vectorized, and what it does to their scalar parts costs more time than it saves.
_FLAGS: Final = (
    "-O2",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-tree-vectorize",
    "-fwrapv",
    "-nostdlib",
    "-shared",
    "-fPIC",
    "-w",
    "-Wno-psabi",
)
# gcc knows no contraction "on" of its own: the source says where a product is rounded before something is added. The
# passes that are off cost a twentieth of its time, and kernels are as fast without them.
_GCC_FLAGS: Final = (
    "-ffp-contract=fast",
    "-fno-gcse",
    "-fno-tree-dominator-opts",
    "-fno-tree-loop-distribute-patterns",
)
_OTHER_FLAGS: Final = ("-ffp-contract=on",)
# Checks of every access and of undefined behavior; the process must have been started with the sanitizers' libraries.
_SANITIZE_FLAGS: Final = ("-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
# Symbols of the C library resolve when the code is loaded; this linker wants to be told.
_PLATFORM_FLAGS: Final = {"darwin": ("-Wl,-undefined,dynamic_lookup",)}

# What an old compiler or an unusual processor may refuse, best first.
_MACHINE_FLAGS: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "x86_64": (("-march=native", "-mprefer-vector-width=512"), ("-march=native",), ()),
    # Atomic operations out of line would be functions of a library that is not linked.
    "aarch64": (("-march=native",), ("-mcpu=native",), ("-mno-outline-atomics",), ()),
    "other": (("-march=native",), ("-mcpu=native",), ()),
}


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C compiler with the flags that it takes here."""

    command: tuple[str, ...]
    version: str
    machine_flags: tuple[str, ...]

    @property
    def family(self) -> str:
        """gcc, clang or zig."""
        return "zig" if _is_zig(self.command[0]) else "clang" if "clang" in self.version else "gcc"

    @property
    def flags(self) -> tuple[str, ...]:
        """All flags for making a shared library."""
        checks = _SANITIZE_FLAGS if settings().sanitize else ()
        own = _GCC_FLAGS if self.family == "gcc" else _OTHER_FLAGS
        return (*_FLAGS, *own, *checks, *_PLATFORM_FLAGS.get(sys.platform, ()), *self.machine_flags)

    @property
    def identity(self) -> str:
        """Everything besides the source that the compiled code depends on."""
        return "\n".join((*self.command, self.version, *self.flags, _processor()))

    def with_fewer_flags(self) -> Iterator[Compiler]:
        """The same compiler with fewer demands, for when it refuses something that should compile."""
        sets = _machine_flags()
        position = sets.index(self.machine_flags) if self.machine_flags in sets else len(sets)
        for flags in sets[position + 1 :]:
            yield replace(self, machine_flags=flags)


_compilers: dict[tuple[str, str], Compiler] = {}


def compiler() -> Compiler:
    """The compiler that the settings name, else the first that works of `cc`, `clang`, `gcc` and the ziglang wheel."""
    place = (settings().compiler, os.environ.get("PATH", ""))
    found = _compilers.get(place)
    if found is None:
        found = _compilers[place] = _named(place[0]) if place[0] else _first()
    return found


def settle_flags(refused: Compiler, taken: Compiler) -> None:
    """From now on use `taken` instead of `refused`, in this process and in later ones."""
    _remember(taken)
    for place, known in list(_compilers.items()):
        if known == refused:
            _compilers[place] = taken


def _named(text: str) -> Compiler:
    import shlex

    try:
        command = (text,) if shutil.which(text) else tuple(shlex.split(text))
    except ValueError as error:
        raise CompilerError(
            f"SMELT_CC is {text!r}, which is no command: {error}", hint="Quote arguments as for a shell."
        ) from None
    if not command or shutil.which(command[0]) is None:
        raise CompilerError(f"the C compiler {text!r} was not found", hint="SMELT_CC names a program or a path to one.")
    found = _inspect(command)
    if found is None:
        raise CompilerError(f"{text!r} does not work as a C compiler", hint=INSTALL_HINT)
    return found


def _first() -> Compiler:
    for name in _CANDIDATES:
        found = _inspect((name,))
        if found is not None:
            return found
    package = importlib.util.find_spec("ziglang")
    for folder in (package and package.submodule_search_locations) or ():
        found = _inspect((os.path.join(folder, "zig"),))
        if found is not None:
            print("smelt: no C compiler on PATH; the ziglang package serves", file=sys.stderr)
            return found
    raise CompilerError("no C compiler was found", hint=INSTALL_HINT)


def _inspect(command: tuple[str, ...]) -> Compiler | None:
    """What a command is, from its version text; None for one that does not run. The answer is remembered on disk."""
    program = shutil.which(command[0])
    if program is None:
        return None
    command = (program, *(command[1:] or (("cc",) if _is_zig(program) else ())))
    cache = disk_cache()
    stored = cache.load_bytes("compiler", _inspection_key(command)) if cache else None
    if stored is not None:
        version, *machine_flags = stored.decode().split("\n")
        return Compiler(command, version, tuple(machine_flags))
    answer = _ask_version(command)
    if answer is None:
        return None
    found = Compiler(command, answer, _machine_flags()[0])
    _remember(found)
    return found


def _inspection_key(command: tuple[str, ...]) -> str:
    """Names a command, the very file that it is now, and the processor (another one may take other flags)."""
    real = os.path.realpath(command[0])
    status = os.stat(real)
    facts = ("format 2", *command, real, str(status.st_mtime_ns), str(status.st_size), _processor())
    return hashlib.sha256("\0".join(facts).encode()).hexdigest()


def _remember(found: Compiler) -> None:
    cache = disk_cache()
    if cache is not None:
        facts = "\n".join((found.version, *found.machine_flags))
        cache.store_bytes("compiler", _inspection_key(found.command), facts.encode())


def _ask_version(command: tuple[str, ...]) -> str | None:
    from smelt.device.compilation import Child  # only the first process on a machine gets here

    try:
        child = Child([*command, "--version"], _VERSION_TIME_LIMIT, "stdout", {})
    except OSError:
        return None
    try:
        status, said = child.finish()
    except TimeoutError:
        return None
    finally:
        child.stop()
    return None if status else said.decode(errors="replace").strip().partition("\n")[0]


def _is_zig(program: str) -> bool:
    return os.path.basename(program).partition(".")[0] == "zig"


def _machine_flags() -> tuple[tuple[str, ...], ...]:
    return _MACHINE_FLAGS.get(profile().machine) or _MACHINE_FLAGS["other"]


@functools.cache
def _processor() -> str:
    processor = profile()
    return "\n".join((processor.machine, processor.name, " ".join(sorted(processor.features))))
