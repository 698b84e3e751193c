"""`smelt bench conformance` on a few files of our own, some of which are wrong on purpose."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smelt.bench import command
from smelt.bench.conformance import checks, files
from smelt.bench.conformance.pool import answers
from smelt.graph import Node

FOLDER = Path(__file__).parent / "conformance"


def became(name: str, **options: bool) -> list[tuple[str, str]]:
    found = files.run_file(FOLDER / f"{name}.mlir", files.Options(interpreted=True, **options))
    return [(result.name, result.kind) for result in found]


@pytest.mark.parametrize("as_arguments", [False, True])
def test_what_files_expect_is_compared(as_arguments: bool) -> None:
    assert became("add", as_arguments=as_arguments) == [("add#0", "pass"), ("add#1", "pass"), ("add#2", "pass")]
    assert became("exponential_dtypes_float32", as_arguments=as_arguments) == [("exponential_dtypes_float32", "pass")]


def test_what_is_wrong_is_told_apart() -> None:
    assert became("multiply_float32") == [("multiply_float32#0", "mismatch"), ("multiply_float32#1", "crashed")]
    assert became("custom_call") == [("custom_call#0", "refused"), ("custom_call#1", "pass")]


@pytest.mark.parametrize(
    ("content", "kind"), [(b"", "refused"), (b"// nothing", "refused"), (b"\xff\xfe", "refused"), (b"hello", "crashed")]
)
def test_what_has_no_program_does_not_pass(tmp_path: Path, content: bytes, kind: str) -> None:
    path = tmp_path / "add.mlir"
    path.write_bytes(content)
    assert [result.kind for result in files.run_file(path, files.Options())] == [kind]


def test_a_file_without_programs_has_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty.mlir").touch()
    assert command.main(["conformance", "stablehlo", str(tmp_path)]) == 0
    assert "0 of 1" in capsys.readouterr().out


@pytest.mark.parametrize("dims", [False, True])
def test_open_sizes_are_tried(dims: bool) -> None:
    assert became("broadcast_in_dim_dynamic", dims=dims) == [("broadcast_in_dim_dynamic", "pass")]


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["conformance", "stablehlo", str(FOLDER), "--interpreted", "--seconds", "5", "--json"]
    assert command.main(words) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["counts"] == {"pass": 6, "mismatch": 1, "refused": 1, "crashed": 1, "slow": 1}
    assert {result["group"] for result in found["results"]} >= {"add", "exponential", "broadcast", "while"}


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["conformance", "stablehlo", str(FOLDER), "--interpreted", "--only", "add", "--details"]
    assert command.main(words) == 0
    assert "3 of 3: 100.0 %" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["stablehlo", "there/is/none"], "no such .mlir files"),
        (["stablehlo", str(FOLDER), "--only", "nothing"], "no such .mlir files"),
    ],
)
def test_wrong_words(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["conformance", *words]) == 2
    assert message in capsys.readouterr().err


def test_parts_keep_their_lines() -> None:
    first, second = files.parts_of("a\n// -----\n\nb\n// -----\n// nothing but words\n")
    assert (first, second.split("\n").index("b")) == ("a\n", 3)


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("add", "add"),
        ("reduce_max_dtypes_float32", "reduce_max"),
        ("vmap_abs_20_20", "vmap_abs"),
        ("9", "9"),
        ("cumsum_shape_float32_8_9", "cumsum"),
    ],
)
def test_groups(name: str, group: str) -> None:
    assert files.group_of(Path(f"{name}.mlir")) == group


def compared(kind: str, found: Any, wanted: Any, ulps: tuple[int, int] = (0, 3)) -> bool:
    nothing: Node = None  # type: ignore[assignment]
    return (
        checks.difference(checks.Check(kind, nothing, nothing, ulps, 1e-4), np.asarray(found), np.asarray(wanted)) == ""
    )


def test_how_far_results_may_be_apart() -> None:
    one, nan = np.float32(1.0), np.float32(np.nan)
    next_ = np.nextafter(one, np.float32(2.0))
    assert compared("expect_eq", nan, nan) and not compared("expect_eq", one, next_)
    assert compared("expect_almost_eq", one, next_) and not compared("expect_almost_eq", one, np.float32(1.001))
    assert compared("expect_close", one, next_) and not compared("expect_close", one, next_, (0, 0))
    assert not compared("expect_close", one, one, (1, 3)) and compared("expect_close", one, next_, (1, 3))
    small = np.float32(1e-45)
    assert compared("expect_close", -small, small) and not compared("expect_close", one, nan)
    assert not compared("expect_close", np.float32(np.inf), -np.float32(np.inf))
    assert compared("expect_close", np.complex64(1 + 1j), np.complex64(1 + 1j))
    assert not compared("expect_eq", np.int32(3), np.int32(4))


# --- processes


def test_who_crashes_or_is_slow_is_replaced() -> None:
    # There is no such option: the process ends.
    jobs = [{"path": str(FOLDER / "add.mlir"), "options": {name: True}} for name in ("none", "interpreted") * 2]
    found = list(answers(jobs, 1, 30, 8 << 30, lambda job, error: error.kind))
    assert [each if isinstance(each, str) else len(each) for each in found] == ["crashed", 3, "crashed", 3]


def test_memory_is_limited(tmp_path: Path) -> None:
    large = tmp_path / "large.mlir"
    kind = f"tensor<{1 << 30}xf64>"
    text = f"func.func @f() -> {kind} {{\n%0 = stablehlo.iota dim = 0 : {kind}\n%1 = stablehlo.sine %0 : {kind}\n"
    large.write_text(f"{text}return %1 : {kind}\n}}", encoding="utf-8")
    jobs = [{"path": str(large), "options": {"interpreted": True}}]
    [[found]] = answers(jobs, 1, 60, 2 << 30, lambda job, error: [["", "", "crashed", "it ended"]])
    assert found[2] == "crashed"
