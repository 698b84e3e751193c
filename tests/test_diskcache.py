"""What the cache on disk promises: its own entries come back whole, anybody else's never come back at all."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from smelt import diskcache
from smelt.config import configure
from smelt.device import toolchain
from smelt.diskcache import DiskCache, disk_cache
from smelt.errors import InternalError
from tests.device.helpers import holds_in_forked_child

KEY = "ab" * 32
OTHER = "cd" * 32
DATA = bytes(range(256)) * 41

ROOT = Path(__file__).resolve().parent.parent

pytestmark = pytest.mark.filterwarnings("ignore:smelt. .* could not be trusted")


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    return DiskCache(tmp_path / "cache")


def entry(cache: DiskCache, kind: str = "record", key: str = KEY) -> Path:
    return cache.root / kind / key


def compiled(tmp_path: Path, value: int) -> Path:
    """A library whose `answer` is `value`."""
    return library(tmp_path, f"int answer(void) {{ return {value}; }}", str(value))


def library(tmp_path: Path, text: str, name: str = "library") -> Path:
    """Source as a shared library."""
    source, output = tmp_path / f"{name}.c", tmp_path / f"{name}.so"
    source.write_text(text)
    chosen = toolchain.compiler()
    variables = dict.fromkeys(("ZIG_LOCAL_CACHE_DIR", "ZIG_GLOBAL_CACHE_DIR"), str(tmp_path))
    command = [*chosen.command, *chosen.flags, str(source), "-o", str(output)]
    subprocess.run(command, check=True, env=os.environ | variables)
    return output


@pytest.mark.parametrize("data", [b"", b"\0", DATA])
def test_bytes_come_back(cache: DiskCache, data: bytes) -> None:
    assert cache.load_bytes("record", KEY) is None
    cache.store_bytes("record", KEY, data)
    assert cache.load_bytes("record", KEY) == data
    assert DiskCache(cache.root).load_bytes("record", KEY) == data
    assert cache.load_bytes("record", OTHER) is None
    assert cache.load_bytes("another", KEY) is None


def test_storing_again_replaces(cache: DiskCache) -> None:
    cache.store_bytes("record", KEY, b"old")
    cache.store_bytes("record", KEY, b"new")
    assert cache.load_bytes("record", KEY) == b"new"


def test_everything_is_private_to_the_user(cache: DiskCache) -> None:
    before = os.umask(0)
    try:
        cache.store_bytes("record", KEY, DATA)
    finally:
        os.umask(before)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (cache.root, cache.root / "record", entry(cache))]
    assert modes == [0o700, 0o700, 0o600]


@pytest.mark.parametrize("name", ["", "x", "../../etc/passwd", "AB" * 32, KEY + "/x", KEY + "\n"])
def test_only_names_that_smelt_makes_are_keys(cache: DiskCache, name: str) -> None:
    with pytest.raises(InternalError):
        cache.load_bytes("record", name)
    with pytest.raises(InternalError):
        cache.store_bytes("record", name, b"")
    with pytest.raises(InternalError):
        cache.load_bytes(name if name != "x" else "..", KEY)


DAMAGE = {
    "a flipped bit": lambda whole: whole[:100] + bytes([whole[100] ^ 1]) + whole[101:],
    "a flipped bit of the checksum": lambda whole: whole[:-20] + bytes([whole[-20] ^ 1]) + whole[-19:],
    "truncated": lambda whole: whole[: len(whole) // 2],
    "one byte short": lambda whole: whole[:-1],
    "one byte more": lambda whole: whole + b"\0",
    "empty": lambda whole: b"",
    "only zeros": lambda whole: bytes(len(whole)),
    "only the trailer": lambda whole: whole[-40:],
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_entry_is_dropped_and_made_again(cache: DiskCache, damage: str) -> None:
    cache.store_bytes("record", KEY, DATA)
    entry(cache).write_bytes(DAMAGE[damage](entry(cache).read_bytes()))
    assert cache.load_bytes("record", KEY) is None
    assert not entry(cache).exists()
    cache.store_bytes("record", KEY, DATA)
    assert cache.load_bytes("record", KEY) == DATA


def test_the_first_damage_that_is_repaired_is_worth_a_warning(cache: DiskCache) -> None:
    for key in (KEY, OTHER):
        cache.store_bytes("record", key, DATA)
        entry(cache, key=key).write_bytes(DATA)
    with pytest.warns(UserWarning, match=rf"record/{KEY} could not be trusted \(it is damaged\), and is made") as seen:
        assert cache.load_bytes("record", KEY) is None
        assert cache.load_bytes("record", OTHER) is None
    assert [(warning.filename, len(seen)) for warning in seen] == [(__file__, 1)]  # at the user's own line


def test_a_whole_entry_in_the_wrong_place_is_dropped(cache: DiskCache) -> None:
    cache.store_bytes("record", KEY, DATA)
    entry(cache).rename(entry(cache, key=OTHER))
    assert cache.load_bytes("record", OTHER) is None


def test_a_half_written_file_is_never_seen_and_later_removed(cache: DiskCache) -> None:
    cache.store_bytes("record", KEY, DATA)
    old, young = cache.root / "record" / "1234.new", cache.root / "record" / "5678.new"
    for path in (old, young):
        path.write_bytes(DATA[:100])
    os.utime(old, (0, 0))
    assert cache.load_bytes("record", KEY) == DATA
    DiskCache(cache.root).store_bytes("record", OTHER, b"")  # a new process looks through the folders
    assert not old.exists()
    assert young.exists()  # somebody may be writing it


def test_an_interrupted_write_leaves_nothing(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.store_bytes("record", KEY, b"old")

    def interrupted(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cache.store_bytes("record", KEY, b"new")
    assert os.listdir(cache.root / "record") == [KEY]
    assert cache.load_bytes("record", KEY) == b"old"


def test_a_full_disk_is_no_error(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.store_bytes("record", KEY, b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    cache.store_bytes("record", KEY, b"new")
    assert os.listdir(cache.root / "record") == [KEY]
    assert cache.keep_file("failed", KEY, ".c", b"text") is None


def test_links_are_not_followed(cache: DiskCache, tmp_path: Path) -> None:
    cache.store_bytes("record", KEY, DATA)
    target = tmp_path / "target"
    entry(cache).rename(target)
    entry(cache).symlink_to(target)
    assert cache.load_bytes("record", KEY) is None
    assert not entry(cache).is_symlink()
    assert target.exists()


@pytest.mark.parametrize("level", ["root", "kind"])
def test_linked_folders_are_not_used(cache: DiskCache, tmp_path: Path, level: str) -> None:
    cache.store_bytes("record", KEY, DATA)
    folder = cache.root if level == "root" else cache.root / "record"
    folder.rename(tmp_path / "moved")
    folder.symlink_to(tmp_path / "moved")
    assert cache.load_bytes("record", KEY) is None
    cache.store_bytes("record", OTHER, DATA)
    assert cache.load_bytes("record", OTHER) is None
    assert OTHER not in os.listdir(tmp_path / "moved")


@pytest.mark.parametrize("mode", [0o777, 0o720, 0o702])
@pytest.mark.parametrize("level", ["root", "kind"])
def test_folders_that_others_may_write_to_are_not_used(cache: DiskCache, level: str, mode: int) -> None:
    cache.store_bytes("record", KEY, DATA)
    (cache.root if level == "root" else cache.root / "record").chmod(mode)
    assert cache.load_bytes("record", KEY) is None
    cache.store_bytes("record", OTHER, DATA)
    assert not entry(cache, key=OTHER).exists()


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_entries_that_others_may_write_to_are_dropped(cache: DiskCache, mode: int) -> None:
    cache.store_bytes("record", KEY, DATA)
    entry(cache).chmod(mode)
    assert cache.load_bytes("record", KEY) is None
    assert not entry(cache).exists()


@pytest.mark.parametrize("level", ["root", "kind", "entry"])
def test_what_belongs_to_another_user_is_not_used(
    cache: DiskCache, monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    cache.store_bytes("record", KEY, DATA)
    foreign = {"root": cache.root, "kind": cache.root / "record", "entry": entry(cache)}[level].stat().st_ino
    true_fstat = os.fstat

    def fstat(descriptor: int) -> os.stat_result:
        status = true_fstat(descriptor)
        if status.st_ino != foreign:
            return status
        fields = list(status)
        fields[4] = os.geteuid() + 1
        return os.stat_result(fields)

    monkeypatch.setattr(os, "fstat", fstat)
    assert cache.load_bytes("record", KEY) is None
    assert entry(cache).exists() == (level != "entry")


def test_other_things_under_an_entry_s_name_are_not_read(cache: DiskCache) -> None:
    cache.store_bytes("record", OTHER, b"")
    os.mkfifo(entry(cache))
    assert cache.load_bytes("record", KEY) is None  # and does not wait for a writer
    cache.store_bytes("record", KEY, DATA)
    assert cache.load_bytes("record", KEY) == DATA


@pytest.mark.parametrize("inside", [(), ("file", "folder/file")])
def test_a_folder_in_the_place_of_an_entry_makes_room_for_it(cache: DiskCache, inside: tuple[str, ...]) -> None:
    cache.store_bytes("record", OTHER, b"")
    entry(cache).mkdir()
    for name in inside:
        (entry(cache) / name).parent.mkdir(exist_ok=True)
        (entry(cache) / name).write_text("in the way")
    assert cache.load_bytes("record", KEY) is None
    cache.store_bytes("record", KEY, DATA)
    assert cache.load_bytes("record", KEY) == DATA


@pytest.mark.parametrize("below", ["", "cache"])
def test_an_unusable_folder_means_working_without_after_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], below: str
) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = DiskCache(tmp_path / "file" / below)
    for _ in range(3):
        cache.store_bytes("record", KEY, DATA)
        assert cache.load_bytes("record", KEY) is None
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"what is compiled cannot be kept in {tmp_path / 'file' / below}: not a directory" in said
    assert "compiled anew each time" in said


def test_a_file_beside_its_folders_is_none_of_its_business(
    cache: DiskCache, capsys: pytest.CaptureFixture[str]
) -> None:
    cache.root.mkdir(mode=0o700)
    (cache.root / "lock").write_text("as the database of tuned choices has one")
    cache.store_bytes("record", KEY, DATA)
    assert cache.load_bytes("record", KEY) == DATA
    assert not capsys.readouterr().err


def test_a_folder_that_may_only_be_read_is_told(
    cache: DiskCache, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("smelt.diskcache.write_whole", refused)
    cache.store_bytes("record", KEY, DATA)
    cache.store_bytes("record", KEY, DATA)
    assert capsys.readouterr().err.count("permission denied. It is compiled anew") == 1


def test_a_missing_descriptor_does_not_cost_an_entry(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.store_bytes("record", KEY, DATA)
    true_open = os.open

    def no_more(path: str, flags: int, *rest: int, **more: int) -> int:
        if path == KEY:
            raise OSError(24, "Too many open files")
        return true_open(path, flags, *rest, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", no_more)
        assert cache.load_bytes("record", KEY) is None
    assert cache.load_bytes("record", KEY) == DATA


def test_no_descriptor_stays_open(cache: DiskCache) -> None:
    count = len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0
    cache.store_bytes("record", KEY, DATA)
    cache.load_bytes("record", KEY)
    entry(cache).write_bytes(b"damage")
    cache.load_bytes("record", KEY)
    cache.root.chmod(0o777)
    cache.load_bytes("record", KEY)
    assert sys.platform != "linux" or len(os.listdir("/proc/self/fd")) == count


def test_the_oldest_entries_go_when_there_are_too_many_bytes(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "cache", limit=10_000)
    keys = [f"{number:064x}" for number in range(20)]
    for age, key in enumerate(keys):
        cache.store_bytes("record", key, bytes(1000))
        os.utime(entry(cache, key=key), (1000 + age, 1000 + age)) if entry(cache, key=key).exists() else None
    kept = [key for key in keys if cache.load_bytes("record", key) is not None]
    assert 3 <= len(kept) < 10
    assert keys[-1] in kept
    assert keys[0] not in kept
    assert sum(path.stat().st_size for path in (cache.root / "record").iterdir()) <= 10_000


def test_reading_an_old_entry_makes_it_young(cache: DiskCache) -> None:
    cache.store_bytes("record", KEY, DATA)
    os.utime(entry(cache), (0, 0))
    assert cache.load_bytes("record", KEY) == DATA
    assert entry(cache).stat().st_mtime > 0


def test_libraries_come_back_each_as_itself(cache: DiskCache, tmp_path: Path) -> None:
    """The dynamic loader compares names, and the descriptors that we load from have the same number every time."""
    for value in (11, 22, 33):
        cache.store_library(f"{value:064x}", compiled(tmp_path, value))
    loaded = [cache.load_library(f"{value:064x}") for value in (11, 22, 33, 11)]
    assert [library and library.answer() for library in loaded] == [11, 22, 33, 11]
    cache.store_library(KEY, compiled(tmp_path, 44).read_bytes())
    fourth = cache.load_library(KEY)
    assert fourth is not None
    assert fourth.answer() == 44


def test_a_replaced_library_is_the_new_one(cache: DiskCache, tmp_path: Path) -> None:
    for value in (5, 6):
        cache.store_library(KEY, compiled(tmp_path, value))
        library = cache.load_library(KEY)
        assert library is not None
        assert library.answer() == value


def test_nothing_untrusted_reaches_the_loader(
    cache: DiskCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = compiled(tmp_path, 7)
    loads: list[str] = []
    monkeypatch.setattr(ctypes, "CDLL", loads.append)
    path = entry(cache, "library")
    cache.store_library(KEY, whole)
    cache.load_library(KEY)
    assert len(loads) == 1
    loads.clear()

    def plain() -> None:  # a library without a checksum
        path.write_bytes(whole.read_bytes())

    def damaged() -> None:
        path.write_bytes(path.read_bytes()[:-1] + b"x")

    def writable() -> None:
        path.chmod(0o666)

    def linked() -> None:
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")

    def open_folder() -> None:
        path.parent.chmod(0o777)

    for spoil in (plain, damaged, writable, linked, open_folder):
        cache.store_library(KEY, whole)
        spoil()
        assert cache.load_library(KEY) is None
    assert loads == []


def test_a_whole_entry_that_is_no_library_is_dropped(cache: DiskCache) -> None:
    cache.store_library(KEY, b"not a library")
    assert cache.load_library(KEY) is None
    assert not entry(cache, "library").exists()


def test_the_settings_choose_the_cache(tmp_path: Path) -> None:
    with configure(cache_dir=tmp_path / "one"):
        first = disk_cache()
        assert first is not None
        assert first is disk_cache()
        assert first.root == tmp_path / "one"
    with configure(disk_cache=False):
        assert disk_cache() is None


def test_a_forked_child_may_store(cache: DiskCache) -> None:
    """Another thread of the parent is pruning at the moment of the fork."""

    def check() -> bool:
        cache.store_bytes("record", KEY, DATA)
        return cache.load_bytes("record", KEY) == DATA

    with diskcache._pruning:
        assert holds_in_forked_child(check)


STORM = """
import hashlib, sys
from pathlib import Path
from smelt.diskcache import DiskCache

cache = DiskCache(Path(sys.argv[1]), limit=30_000)
wrong = 0
for turn in range(20):
    for number in range(8):
        key = hashlib.sha256(b"%d" % number).hexdigest()
        data = hashlib.sha256(b"data%d" % number).digest() * 200
        found = cache.load_bytes("record", key)
        wrong += found is not None and found != data
        if found is None or turn % 8 == int(sys.argv[2]):
            cache.store_bytes("record", key, data)
        if (turn + number) % 10 == int(sys.argv[2]):
            (cache.root / "record" / key).unlink(missing_ok=True)
sys.exit(wrong)
"""


def test_eight_processes_share_one_cache(tmp_path: Path) -> None:
    """They store, read and remove the same few entries at once; whoever reads, reads whole entries."""
    root = tmp_path / "deep" / "cache"
    processes = [
        subprocess.Popen([sys.executable, "-c", STORM, str(root), str(number)], cwd=ROOT, stderr=subprocess.PIPE)
        for number in range(8)
    ]
    answers = [process.communicate()[1] for process in processes]
    assert answers == [b""] * 8
    assert [process.returncode for process in processes] == [0] * 8
    assert not [path for path in (root / "record").iterdir() if path.name.endswith(".new")]


def test_eight_threads_share_one_cache(cache: DiskCache) -> None:
    wrong: list[bytes] = []

    def storm() -> None:
        for number in range(5):
            key = f"{number:064x}"
            cache.store_bytes("record", key, key.encode() * 100)
            found = cache.load_bytes("record", key)
            if found != key.encode() * 100:
                wrong.append(found or b"")

    threads = [threading.Thread(target=storm) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
