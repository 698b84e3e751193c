"""What is read about a processor, from the files of this machine and of others."""

from __future__ import annotations

import importlib
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from smelt import config
from smelt.cost.profile import profile, read_profile, without
from smelt.errors import ArgumentError


def write(root: Path, texts: dict[str, str]) -> Path:
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def cpuinfo(flags: str) -> dict[str, str]:
    one = f"processor : 0\nmodel name : Some CPU @ 3 GHz: fast\nflags : {flags}\n\n"
    return {"proc/cpuinfo": one + "processor : 1\nflags : other\n\n"}


def test_this_machine() -> None:
    found = profile()
    assert found is profile()
    assert found.vector_bytes in (16, 32, 64)
    assert 1 <= found.cores <= (os.cpu_count() or 1)
    assert found.l1_bytes < found.l2_bytes


@pytest.mark.parametrize("granted", [True, False])
def test_matrix_instructions_need_permission(granted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("smelt.cost.profile")
    with_tiles = profile()._replace(features=frozenset({"avx512f", "amx_tile", "amx_bf16"}))
    monkeypatch.setattr(module, "read_profile", lambda *_: with_tiles)
    monkeypatch.setattr(module, "_may_use_tiles", lambda: granted)
    found = profile.__wrapped__().features
    assert found == (with_tiles.features if granted else {"avx512f"})


@pytest.mark.skipif(platform.machine() != "x86_64", reason="a system call of x86_64")
def test_asking_for_permission_never_fails() -> None:
    module = importlib.import_module("smelt.cost.profile")
    assert module._may_use_tiles() in (True, False)


@pytest.mark.parametrize(
    ("machine", "flags", "vectors"),
    [
        ("x86_64", "sse2 avx avx2 fma avx512f", (64, 32)),
        ("x86_64", "sse2 avx avx2", (32, 16)),
        ("x86_64", "sse2", (16, 16)),
        ("aarch64", "", (16, 32)),
        ("arm64", "", (16, 32)),
        ("riscv64", "", (16, 16)),
    ],
)
def test_vectors(tmp_path: Path, machine: str, flags: str, vectors: tuple[int, int]) -> None:
    found = read_profile(write(tmp_path, cpuinfo(flags)), machine, 4)
    assert (found.vector_bytes, found.vector_registers) == vectors
    assert found.features == frozenset(flags.split())
    assert found.name == "Some CPU @ 3 GHz: fast"
    assert found.cores == 4


def test_caches(tmp_path: Path) -> None:
    folder = "sys/devices/system/cpu/cpu0/cache"
    facts = [("Data", "1", "48K"), ("Instruction", "1", "32K"), ("Unified", "2", "2M"), ("Unified", "3", "odd")]
    for index, fact in enumerate(facts):
        for name, text in zip(("type", "level", "size"), fact, strict=True):
            write(tmp_path, {f"{folder}/index{index}/{name}": text + "\n"})
    found = read_profile(tmp_path, "x86_64", 1)
    assert (found.l1_bytes, found.l2_bytes, found.l3_bytes) == (48 << 10, 2 << 20, 8 << 20)


def test_a_machine_that_says_nothing(tmp_path: Path) -> None:
    found = read_profile(tmp_path, "aarch64", 3)
    assert (found.l1_bytes, found.cores, found.features) == (32 << 10, 3, frozenset())
    assert found.name


@pytest.mark.parametrize(
    ("texts", "cores"),
    [
        ({"sys/fs/cgroup/cpu.max": "150000 100000\n"}, 2),
        ({"sys/fs/cgroup/cpu.max": "50000 100000\n"}, 1),
        ({"sys/fs/cgroup/cpu.max": "max 100000\n"}, 8),
        ({"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "300000", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000"}, 3),
        ({"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000"}, 8),
    ],
)
def test_cores_stay_within_the_quota(tmp_path: Path, texts: dict[str, str], cores: int) -> None:
    assert read_profile(write(tmp_path, texts), "x86_64", 8).cores == cores


def test_instruction_sets_can_be_taken_away(tmp_path: Path) -> None:
    full = read_profile(write(tmp_path, cpuinfo("avx2 avx512f avx512_bf16 amx_tile amx_bf16")), "x86_64", 4)
    assert without(full, ("amx",)).features == {"avx2", "avx512f", "avx512_bf16"}
    assert without(full, ("amx",)).vector_bytes == 64
    narrow = without(full, ("amx", "avx512"))
    assert (narrow.features, narrow.vector_bytes, narrow.vector_registers) == ({"avx2"}, 32, 16)
    assert without(full, ()) == full


@pytest.mark.parametrize(
    ("text", "shown"), [("-avx,-asimd", "()"), ("-nothing", "True"), ("avx", "Write SMELT_FEATURES=")]
)
def test_what_the_environment_takes_away(text: str, shown: str) -> None:
    code = """if True:
        from smelt.cost.profile import profile
        import os
        if os.environ["SMELT_FEATURES"] == "-nothing":
            print(bool(profile().features))
        else:
            print(tuple(name for name in profile().features if name.startswith(("avx", "asimd"))))
    """
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "SMELT_FEATURES": text},
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown in done.stdout + done.stderr


@pytest.mark.parametrize("text", ["9x", "-3", "1.5", "²"])
def test_a_setting_that_is_no_number_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMELT_THREADS", text)
    with pytest.raises(ArgumentError, match=r"SMELT_THREADS: .* is not a number"):
        config._from_environment()
    monkeypatch.setenv("SMELT_THREADS", " ")
    assert config._from_environment().threads == 0


def test_a_misspelt_setting_is_told(monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder) -> None:
    monkeypatch.setenv("SMELT_TEST_OPENCL", "")  # read by tests
    monkeypatch.setenv("SMELT_SOMEBODY_ELSES", "1")
    config._from_environment()
    assert not recwarn.list
    monkeypatch.setenv("SMELT_THREAD", "1")
    with pytest.warns(UserWarning, match="SMELT_THREAD means nothing to smelt; SMELT_THREADS does"):
        config._from_environment()
