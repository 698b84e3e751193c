"""The cache on disk under many processes, on bad disks, without a home, and after a writer was killed."""

from __future__ import annotations

import errno
import io
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

import smelt as sm
from smelt import runtime
from smelt.config import configure
from smelt.device import compilation, discovery, toolchain
from smelt.diskcache import DiskCache
from smelt.errors import CompilerError
from tests.hardening.processes import GRAPHS, damaged, each_slow, files, run, says, says_without_room

TOGETHER = (
    GRAPHS
    + """
import os, sys
count, graphs = int(sys.argv[1]), int(sys.argv[2])
children = []
for number in range(count):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            # Everybody has some graphs in common with everybody else, in an order of their own.
            mine = [0, 1] + [2 + (number + k) % graphs for k in range(3)]
            mine = mine[number % len(mine):] + mine[:number % len(mine)]
            status = 0 if all(is_right(k) for k in mine) else 2
        finally:
            os._exit(status)
    children.append(child)
print(sum(os.waitpid(child, 0)[1] != 0 for child in children))
"""
)

COMPILES = GRAPHS + "from smelt.device import toolchain\nprint(all(map(is_right, range(6))), toolchain.compile_count())"


@pytest.mark.parametrize("count", [3, *each_slow(32)])
def test_processes_that_start_together_share_a_cold_cache(tmp_path: Path, count: int) -> None:
    cache, temporary = tmp_path / "cache", tmp_path / "tmp"
    temporary.mkdir()
    assert says(TOGETHER, cache, count, 4, TMPDIR=str(temporary)) == "0"
    assert damaged(cache) == []
    assert list(temporary.iterdir()) == []
    if count == 32:
        assert says(COMPILES, cache) == "True 0"  # whoever comes later compiles nothing


# Stores entries over and over until the timer ends it, at whatever it is doing.
KILLED = """
import os, random, signal, sys
from pathlib import Path
from smelt.diskcache import DiskCache

root, deaths, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
draw = random.Random(seed)
killed = wrong = 0
for turn in range(deaths):
    delay = draw.uniform(1e-5, 4e-3)
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, delay)
        cache = DiskCache(root)
        while True:
            number = draw.randrange(16)
            kind = ("library", "graphs")[number % 2]
            cache.store_bytes(kind, f"{number:064x}", bytes([turn % 256]) * (1 << number))
    killed += os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGALRM
    cache = DiskCache(root)
    for number in range(16):
        found = cache.load_bytes(("library", "graphs")[number % 2], f"{number:064x}")
        wrong += found is not None and (len(found) != 1 << number or len(set(found)) != 1)
print(killed, wrong)
"""


def test_a_writer_killed_at_random_moments_leaves_whole_entries_or_none(tmp_path: Path) -> None:
    root = tmp_path / "cache"
    assert says(KILLED, root, root, 200, 7) == "200 0"
    torn = damaged(root)
    assert all(path.name.endswith(".new") for path in torn)  # never under the name of an entry
    for path in torn:
        os.utime(path, (0, 0))  # an hour passes
    DiskCache(root).store_bytes("graphs", "ab" * 32, b"new")
    assert damaged(root) == []


COMPUTES = GRAPHS + "import sys\nassert all(is_right(k) for k in range(int(sys.argv[1])))\nprint('right')"


@pytest.mark.slow
def test_a_process_killed_while_it_compiles_and_stores_harms_nobody(tmp_path: Path) -> None:
    draw = random.Random(3)
    for turn in range(9):
        root = tmp_path / str(turn % 3)
        code = f"import signal; signal.setitimer(signal.ITIMER_REAL, {draw.uniform(0.2, 1.2)})\n" + COMPUTES
        assert run(code, root, 8, TMPDIR=str(tmp_path)).returncode in (0, -14)
        assert all(path.name.endswith(".new") for path in damaged(root))
    assert says(COMPUTES, root, 8) == "right"


@pytest.mark.parametrize("change", ["flipped", *each_slow("cut", "emptied", "swapped", "linked")])
def test_whatever_happens_to_entries_results_are_right_and_the_cache_is_repaired(tmp_path: Path, change: str) -> None:
    """Libraries, records and what is known of the compiler: every file of a warm cache is spoiled."""
    cache = tmp_path / "cache"
    assert says(COMPUTES, cache, 2) == "right"
    whole = {path: path.read_bytes() for path in files(cache)}
    assert {path.parent.name for path in whole} == {"library", "graphs", "compiler"}
    draw = random.Random(5)
    for path, data in whole.items():
        match change:
            case "flipped":
                at = draw.randrange(len(data))
                path.write_bytes(data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :])
            case "cut":
                path.write_bytes(data[: draw.randrange(len(data))])
            case "emptied":
                path.write_bytes(b"")
            case "swapped":
                others = [other for other in whole if other.parent == path.parent and other != path]
                path.write_bytes(whole[others[0]] if others else b"")
            case "linked":
                path.rename(tmp_path / path.name)
                path.symlink_to(tmp_path / path.name)
    answer = run("import warnings; warnings.simplefilter('always', UserWarning)\n" + COMPUTES, cache, 2)
    assert (answer.returncode, answer.stdout) == (0, "right\n")
    assert answer.stderr.count("could not be trusted") == 1
    assert damaged(cache) == []
    assert set(whole) == set(files(cache))


# --- disks


@pytest.mark.slow
def test_a_cache_that_may_only_be_read_still_serves(tmp_path: Path) -> None:
    """Root may write anywhere, so the write itself is refused."""
    cache = tmp_path / "cache"
    assert says(COMPUTES, cache, 1) == "right"
    before = {path: path.read_bytes() for path in files(cache)}
    refused = """
import os
real = os.open
def no_new_files(path, flags, *rest, **more):
    if flags & os.O_CREAT and str(path).endswith(".new"):
        raise OSError(30, "Read-only file system")
    return real(path, flags, *rest, **more)
os.open = no_new_files
"""
    assert says_without_room(refused + COMPUTES, cache, 2) == "right"
    assert {path: path.read_bytes() for path in files(cache)} == before
    count = GRAPHS + "from smelt.device import toolchain\nprint(is_right(0), toolchain.compile_count())"
    assert says(refused + count, cache) == "True 0"


@pytest.mark.slow
def test_a_cache_of_another_user_is_left_alone(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    cache = tmp_path / "cache"
    assert says(COMPUTES, cache, 1) == "right"
    before = {path: path.read_bytes() for path in files(cache)}
    for path in (cache, *cache.rglob("*")):
        os.chown(path, 12345, 12345)
    assert says_without_room(COMPUTES, cache, 2) == "right"
    assert {path: path.read_bytes() for path in files(cache)} == before


STEPS = ("open", "write", "fsync", "rename", "mkdir")


@pytest.mark.parametrize("step", STEPS)
def test_every_step_of_a_write_may_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    root = tmp_path / "cache"
    if step != "mkdir":
        DiskCache(root).store_bytes("record", "ab" * 32, b"old")
    calls: list[str] = []

    def full(*_: Any, **__: Any) -> Any:
        calls.append(step)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if step in {"fsync", "rename", "mkdir"}:
        monkeypatch.setattr(os, step, full)
    elif step == "open":
        real_open = os.open

        def open_(path: Any, flags: int, *rest: Any, **more: Any) -> int:
            return full() if flags & os.O_CREAT else real_open(path, flags, *rest, **more)

        monkeypatch.setattr(os, "open", open_)
    else:
        from smelt import diskcache

        class Full(io.FileIO):
            write = full

        def open_file(descriptor: int, mode: str, **more: Any) -> Any:
            return Full(descriptor, mode, **more)

        monkeypatch.setattr(diskcache, "open", open_file, raising=False)
    cache = DiskCache(root)
    cache.store_bytes("record", "cd" * 32, b"new")
    cache.store_library("cd" * 32, b"new")
    assert cache.keep_file("failed", "cd" * 32, ".c", b"text") is None
    monkeypatch.undo()
    assert calls
    assert [path.name for path in files(root)] == (["ab" * 32] if step != "mkdir" else [])
    cache.store_bytes("record", "cd" * 32, b"new")
    assert cache.load_bytes("record", "cd" * 32) == b"new"


@pytest.fixture
def small_disk(tmp_path: Path) -> Any:
    """A file system with room for little."""
    folder = tmp_path / "small"
    folder.mkdir()
    try:
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=48k,mode=700", "tmpfs", str(folder)], check=True, capture_output=True
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no right to mount a file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.slow
def test_a_cache_on_a_full_disk(tmp_path: Path, small_disk: Path) -> None:
    assert says_without_room(COMPUTES, small_disk / "cache", 4) == "right"
    assert damaged(small_disk / "cache") == []
    _fill(small_disk / "filler")
    assert says_without_room(COMPUTES, small_disk / "cache", 5) == "right"
    assert damaged(small_disk / "cache") == []


def test_no_room_for_the_compiler_is_said_so(small_disk: Path, tmp_path: Path) -> None:
    code = GRAPHS + "from smelt.errors import CompilerError\ntry: graph(0)\nexcept CompilerError as error: print(error)"
    _fill(small_disk / "filler")
    said = says(code, tmp_path / "cache", TMPDIR=str(small_disk))
    assert "no room for its temporary files" in said or said == ""  # Python takes another folder that it can write to
    (small_disk / "filler").unlink()
    _fill(small_disk / "filler", keep=14 << 10)  # for the source, but not for what becomes of it
    assert "no room for its temporary files: No space left on device" in says(
        code, tmp_path / "other", TMPDIR=str(small_disk)
    )


def _fill(path: Path, keep: int = 0) -> None:
    """Take all the room of a disk, but for `keep` bytes."""
    try:
        with path.open("wb", buffering=0) as file:
            while file.write(bytes(1024)):
                pass
    except OSError:
        pass
    os.truncate(path, max(0, path.stat().st_size - keep))


@pytest.mark.parametrize("limit", [512, *each_slow(0, 4096, 20_000)])
def test_a_limit_on_the_size_of_files(tmp_path: Path, limit: int) -> None:
    """The limit holds for the compiler too, so the code is already there; what cannot be stored is not."""
    cache = tmp_path / "cache"
    code = f"""
import resource, signal
from pathlib import Path
from smelt.diskcache import DiskCache
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
cache = DiskCache(Path({str(cache)!r}))
for size in (0, 100, 1000, 10_000, 100_000):
    cache.store_bytes("record", f"{{size:064x}}", bytes(size))
print([size for size in (0, 100, 1000, 10_000, 100_000) if cache.load_bytes("record", f"{{size:064x}}") == bytes(size)])
"""
    trailer = 40
    kept = [size for size in (0, 100, 1000, 10_000, 100_000) if size + trailer <= limit]
    assert says_without_room(code, cache) == str(kept)
    assert damaged(cache) == []


def test_no_folder_for_temporary_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def nowhere(*_: object, **__: object) -> None:
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(compilation.tempfile, "gettempdir", nowhere)
    with (
        configure(cache_dir=tmp_path),
        pytest.raises(CompilerError, match="no room for its temporary files: No usable"),
    ):
        toolchain.build(["int nowhere;"])
    monkeypatch.undo()
    with configure(cache_dir=tmp_path):
        toolchain.build(["int nowhere;"])


# --- homes


@pytest.mark.parametrize("home", ["unset", "missing", *each_slow("relative", "file", "unwritable")])
def test_without_a_home_everything_works_and_nothing_is_made(tmp_path: Path, home: str) -> None:
    work, place = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    if home == "file":
        place.touch()
    elif home == "unwritable":
        place.mkdir()
        (place / ".cache").touch()  # in the way, for root as well
    variables = {} if home == "unset" else {"HOME": "home" if home == "relative" else str(place)}
    # A user whom the system does not know, so that nothing but HOME could say where the home is.
    code = (
        "import os, pwd\n"
        "def nobody(uid): raise KeyError(uid)\n"
        f"pwd.getpwuid = nobody\nos.chdir({str(work)!r})\n" + COMPUTES
    )
    removed = ("HOME", "SMELT_CACHE_DIR", "XDG_CACHE_HOME")
    ask = says_without_room if home == "unwritable" else says
    assert ask(code, None, 1, remove=removed, **variables) == "right"
    assert list(work.iterdir()) == []
    made = {path.name for path in tmp_path.rglob("*")} - {"work"}
    assert made == {"file": {"home"}, "unwritable": {"home", ".cache"}}.get(home, set())


def test_a_relative_cache_home_is_ignored(tmp_path: Path) -> None:
    code = f"import os\nos.chdir({str(tmp_path)!r})\nfrom smelt.config import settings\nprint(settings().cache_dir)"
    said = says(code, None, remove=("SMELT_CACHE_DIR",), HOME=str(tmp_path), XDG_CACHE_HOME="relative")
    assert said == str(tmp_path / ".cache" / "smelt")


# --- processors


def _forget_everything() -> None:
    runtime.current().clear_caches()
    toolchain._libraries.clear()


def _compute() -> int:
    """Compute something as a new process would; how often the compiler ran for it."""
    _forget_everything()
    before = toolchain.compile_count()
    assert float((sm.arange(17.0) * 3).sum()) == 408
    return toolchain.compile_count() - before


def test_code_for_another_processor_is_never_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "cache"
    with configure(cache_dir=cache):
        assert _compute() > 0
        assert _compute() == 0
        mine = set(files(cache))
        with monkeypatch.context() as patch:
            patch.setattr(discovery, "_processor", lambda: "x86_64\nAnother one\navx2 sse2")
            assert _compute() > 0  # none of what lies there is used
            assert _compute() == 0
        other = set(files(cache)) - mine
        assert {path.parent.name for path in other} >= {"library", "graphs"}
        for path in other:  # both processors share the cache; what one needs is never under a name of the other's
            assert path not in mine
        assert _compute() == 0


def test_a_record_that_names_code_of_another_processor_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with configure(cache_dir=tmp_path / "cache"):
        with monkeypatch.context() as patch:
            patch.setattr(discovery, "_processor", lambda: "x86_64\nAnother one\navx2 sse2")
            [foreign] = toolchain.build(["int answer(void) { return 1; }"])
        [mine] = toolchain.build(["int answer(void) { return 1; }"])
        assert foreign.key != mine.key
        toolchain._libraries.clear()
        found = toolchain.stored([mine.key])
        assert found is not None
        assert toolchain.stored([foreign.key]) is None
        assert toolchain.stored([mine.key, foreign.key]) is None
