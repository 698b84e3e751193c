"""Saving over what is there already: links, permissions, things that are no files, and saves that were killed."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import smelt as sm
from smelt.errors import ArgumentError
from smelt.formats import write_whole
from tests.conftest import ROOT


def test_a_save_writes_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    real, link = tmp_path / "disk" / "run-7.safetensors", tmp_path / "latest.safetensors"
    sm.save({"x": sm.zeros(2)}, real)
    link.symlink_to(real)
    sm.save({"x": sm.ones(2)}, link)
    assert link.is_symlink()
    assert sm.load(real)["x"].tolist() == [1.0, 1.0]
    assert os.listdir(real.parent) == [real.name]


def test_a_link_to_a_file_that_is_not_there_yet_is_filled(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("later")
    sm.save({"x": sm.ones(2)}, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert sm.load(tmp_path / "later")["x"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o444])
def test_a_file_keeps_its_permissions(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "secret.safetensors"
    sm.save({"x": sm.zeros(2)}, path)
    path.chmod(mode)
    sm.save({"x": sm.ones(2)}, path)
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert sm.load(path)["x"].tolist() == [1.0, 1.0]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_a_file_keeps_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "theirs.safetensors"
    sm.save({"x": sm.zeros(2)}, path)
    os.chown(path, 1234, 5678)
    sm.save({"x": sm.ones(2)}, path)
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 5678)


def test_a_new_file_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    sm.save({"x": sm.zeros(2)}, tmp_path / "x")
    assert (tmp_path / "x").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_what_is_no_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("pipe")
    cases = {"pipe": tmp_path / "pipe", "folder": tmp_path / "folder", "device": Path("/dev/null")}
    for kind, path in [*cases.items(), ("pipe", tmp_path / "link")]:
        before = os.lstat(path)
        with pytest.raises(ArgumentError, match=f"is a {kind}"):
            sm.save({"x": sm.ones(2)}, path)
        assert os.lstat(path)[:3] == before[:3]
    assert sorted(os.listdir(tmp_path)) == ["folder", "link", "pipe"]


KILLED = """
import sys, time
from smelt.formats import write_whole
def parts():
    yield b"half"
    print("writing", flush=True)
    time.sleep(60)
write_whole(sys.argv[1], parts())
"""


def start_a_save(path: Path) -> subprocess.Popen[bytes]:
    """A process that is in the middle of a save."""
    child = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], cwd=ROOT, stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"writing\n"
    return child


def test_the_next_save_clears_away_what_a_killed_one_left(tmp_path: Path) -> None:
    with start_a_save(tmp_path / "net") as killed, start_a_save(tmp_path / "other") as alive:
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert len(os.listdir(tmp_path)) == 2
        sm.save({"x": sm.ones(2)}, tmp_path / "net")
        [left] = [name for name in os.listdir(tmp_path) if name != "net"]
        assert left.startswith(".other."), "the save that still runs keeps its file"
        alive.send_signal(signal.SIGKILL)
    sm.save({"x": sm.ones(2)}, tmp_path / "net")
    assert os.listdir(tmp_path) == ["net"]


def test_files_that_only_look_temporary_stay(tmp_path: Path) -> None:
    names = {".net.new", "net.0123456789abcdef.new", ".net.0123.new"}
    for name in names:
        (tmp_path / name).touch()
    sm.save({"x": sm.ones(2)}, tmp_path / "net")
    assert set(os.listdir(tmp_path)) == names | {"net"}


def test_many_saves_at_once_all_come_through(tmp_path: Path) -> None:
    def write(number: int) -> None:
        for _ in range(20):
            write_whole(tmp_path / f"file-{number % 3}", [bytes([number]) * 1000])

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(os.listdir(tmp_path)) == ["file-0", "file-1", "file-2"]
    for path in tmp_path.iterdir():
        assert len(set(path.read_bytes())) == 1
        assert path.stat().st_size == 1000
