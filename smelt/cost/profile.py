"""What the processor offers: vector width, registers, cores, caches, instruction set extensions."""

from __future__ import annotations

import functools
import os
import platform
from typing import TYPE_CHECKING, Final, NamedTuple

from smelt.config import settings

# Loaded when a profile is read, not when smelt is imported.
if TYPE_CHECKING:
    from pathlib import Path


class Profile(NamedTuple):
    """A processor as schedules see it. `l3_bytes` is shared by all cores; the smaller caches belong to one.

    Where threads come in groups that run a task together, `group_threads` is how many there are in one, and
    `group_bytes` the memory that they share.
    """

    name: str
    machine: str  # x86_64, aarch64, ...
    vector_bytes: int
    vector_registers: int
    cores: int  # as many as this process may keep busy
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    features: frozenset[str]
    group_threads: int = 0
    group_bytes: int = 0

    @property
    def masks(self) -> bool:
        """Whether a load can leave out single lanes."""
        return "avx512f" in self.features

    @property
    def multiplies_by_lane(self) -> bool:
        """Whether a product by one lane of a vector costs no more than one by a whole vector."""
        return self.machine in _ARM

    @property
    def streams(self) -> int:
        """Rows far apart that a core reads side by side without waiting for them."""
        return 4 if self.machine in _ARM else 8

    @property
    def writes_unread(self) -> bool:
        """Whether lines that are written as a whole are not read first: who asks for them early has them read."""
        return self.machine in _ARM

    def ahead(self, nbytes: int) -> int:
        """How many bytes early a core asks for what it walks through, of so many. What x86 has in a page, ARM's own
        requests would have brought before.
        """
        if self.machine not in _ARM:
            return 4096
        return 2048 if nbytes <= self.l3_bytes else 1024


_X86: Final = frozenset({"x86_64", "amd64", "i686", "i386"})
_ARM: Final = frozenset({"aarch64", "arm64"})

_ARCH_PRCTL: Final = 158  # the system call of x86_64
_REQUEST_STATE: Final = 0x1023  # ARCH_REQ_XCOMP_PERM
_TILE_STATE: Final = 18  # XTILEDATA

_DEFAULT_CACHES: Final = {1: 32 << 10, 2: 1 << 20, 3: 8 << 20}
_UNITS: Final = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@functools.cache
def profile() -> Profile:
    """The profile of this machine."""
    from pathlib import Path

    found = without(read_profile(Path("/"), platform.machine().lower(), _allowed_cores()), settings().without_features)
    return found if "amx_tile" not in found.features or _may_use_tiles() else without(found, ("amx_",))


def without(found: Profile, names: tuple[str, ...]) -> Profile:
    """A processor that lacks the instruction sets whose names begin like that."""
    features = frozenset(name for name in found.features if not name.startswith(names)) if names else found.features
    vector_bytes, vector_registers = _vectors(found.machine, features)
    return found._replace(features=features, vector_bytes=vector_bytes, vector_registers=vector_registers)


def read_profile(root: Path, machine: str, allowed_cores: int) -> Profile:
    """The profile that the files `proc` and `sys` under `root` describe; what they do not say has a careful default."""
    facts = facts_of(root / "proc/cpuinfo")
    features = frozenset((facts.get("flags") or facts.get("Features") or "").split())
    vector_bytes, vector_registers = _vectors(machine, features)
    caches = _caches(root / "sys/devices/system/cpu/cpu0/cache")
    return Profile(
        name=facts.get("model name") or platform.processor() or machine,
        machine=machine,
        vector_bytes=vector_bytes,
        vector_registers=vector_registers,
        cores=max(1, min(allowed_cores, _quota(root))),
        l1_bytes=caches[1],
        l2_bytes=caches[2],
        l3_bytes=caches[3],
        features=features,
    )


def _may_use_tiles() -> bool:
    """Ask Linux for the registers of matrix instructions: once a process, for all its threads and what it forks."""
    import ctypes

    try:
        answer = ctypes.CDLL(None).syscall(*map(ctypes.c_long, (_ARCH_PRCTL, _REQUEST_STATE, _TILE_STATE)))
    except (OSError, AttributeError):
        return False
    return bool(answer == 0)


def _allowed_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def facts_of(path: Path) -> dict[str, str]:
    """The entries of a file under `proc`, up to an empty line: there is one behind each processor, of which the first
    has to do, since the kernel takes its time over each. What is no file has none.
    """
    facts = {}
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                name, colon, value = line.partition(":")
                if not colon:
                    break
                facts[name.strip()] = value.strip()
    except OSError:
        pass
    return facts


def _vectors(machine: str, features: frozenset[str]) -> tuple[int, int]:
    """Bytes of a vector register, and how many there are."""
    if machine in _X86:
        if "avx512f" in features:
            return 64, 32
        return (32, 16) if "avx2" in features else (16, 16)
    return (16, 32) if machine in _ARM else (16, 16)


def _caches(folder: Path) -> dict[int, int]:
    sizes = dict(_DEFAULT_CACHES)
    for entry in sorted(folder.glob("index*")):
        try:
            kind, level, size = ((entry / name).read_text().strip() for name in ("type", "level", "size"))
            if kind != "Instruction" and int(level) in sizes:
                sizes[int(level)] = int(size.rstrip("KMG")) * _UNITS.get(size[-1:], 1)
        except (OSError, ValueError):
            continue
    return sizes


def _quota(root: Path) -> int:
    """Cores' worth of time that the control group of the process allows; a spinning pool must not exceed it."""
    folder = root / "sys/fs/cgroup"
    for names in (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")):
        try:
            quota, period = (int(word) for name in names for word in (folder / name).read_text().split())
        except (OSError, ValueError):  # it is not there, or "max"
            continue
        if quota > 0 and period > 0:
            return -(-quota // period)
    return 1 << 16
