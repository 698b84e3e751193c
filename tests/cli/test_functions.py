"""Functions of scripts with the shapes of their arguments, as words of a command."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

import smelt as sm
from smelt.cli.functions import Called, add_function, argument_types, called
from smelt.cli.options import Parser

SCRIPT = """
import smelt as sm
print("a script may print")

class Net:
    def __call__(self, x, w):
        return x @ w

net = Net()

def scaled(x, k):
    return x * k

class Part:
    step = staticmethod(lambda x: x + 1)

if __name__ == "__main__":
    raise SystemExit("a script is not run as a program")
"""


def _called(*words: str) -> Called:
    parser = Parser("test")
    add_function(parser)
    found: argparse.Namespace = parser.parse_args(words)
    return called(found)


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "net.py"
    path.write_text(SCRIPT)
    return str(path)


def test_types_of_arguments() -> None:
    (a, (n, three)), (b, none), (c, (twice,)) = argument_types("f32[n<=64, 3], bool[], i8[2*n]")
    assert (a, b, c) == (sm.float32, sm.bool, sm.int8)
    assert isinstance(n, sm.Dim) and (n.low, n.high, three, none) == (1, 64, 3, ())
    assert twice == 2 * n
    assert [str(dtype) for dtype, _ in argument_types("float32[1],bf16[2], u64[0]")] == [
        "float32",
        "bfloat16",
        "uint64",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("f33[2]", "f33"),
        ("f32", "expected '['"),
        ("f32[2", "expected ','"),
        ("f32[2] i64[3]", "the end"),
        ("f32[-1]", "expected a size"),
        ("f32[n<0]", "expected '='"),
        ("f32[2*m]", "m"),
        ("", "expected a type"),
        ("f32[99999999999999, 99999999]", "no memory"),
    ],
)
def test_types_that_are_none(text: str, message: str, script: str) -> None:
    with pytest.raises(sm.errors.SmeltError) as caught:
        _called(f"{script}:scaled", "--shapes", text) if text else argument_types(text)
    assert message in str(caught.value)


def test_a_function_of_a_script(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = _called(f"{script}:scaled", "--shapes", "f32[2, 3], f32[]")
    assert found.name == "scaled" and found.shapes is None
    assert found.function(*found.args).shape == (2, 3)
    out, err = capsys.readouterr()
    assert out == "" and "a script may print" in err


def test_objects_parts_and_dims(script: str) -> None:
    found = _called(f"{script}:net", "--shapes", "f32[n, 3], f32[3, 4]")
    assert found.shapes is not None and [x.shape for x in found.args] == [(1, 3), (3, 4)]
    assert sm.jit(found.function, shapes=found.shapes)(*found.args).shape == (1, 4)
    assert _called(f"{script}:Part.step", "--shapes", "i32[2]").args[0].dtype is sm.int32


def test_functions_that_are_not_there(script: str) -> None:
    with pytest.raises(sm.errors.ArgumentError, match="no function called 'scald'") as caught:
        _called(f"{script}:scald", "--shapes", "f32[]")
    assert "Did you mean scaled?" in str(caught.value)
    Path(script).write_text("".join(f"def f{k}(x): return x\n" for k in range(10)))
    with pytest.raises(sm.errors.ArgumentError, match="It has f0, f1, f2, f3, f4, f5, f6, f7 and 2 more"):
        _called(f"{script}:another", "--shapes", "f32[]")
    with pytest.raises(sm.errors.ArgumentError, match="no file"):
        _called("nothing.py:f")
    with pytest.raises(sm.errors.SmeltError):
        _called("nothing.gguf")


def test_a_language_model() -> None:
    found = _called("random:tiny", "--shapes", "i32[3]")
    assert found.function(*found.args).shape == (1, 512)


def test_a_script_that_is_no_python_and_shapes_that_are_too_few(script: str, tmp_path: Path) -> None:
    with pytest.raises(sm.errors.ArgumentError, match=r"scaled\(x, k\): --shapes has 1 types"):
        _called(f"{script}:scaled", "--shapes", "f32[2]")
    with pytest.raises(sm.errors.ArgumentError, match=r"net\.py is a script\n(.|\n)*Write .*net\.py:FUNCTION"):
        _called(script)
    wrong = tmp_path / "wrong.py"
    wrong.write_text("x = 1\ndef f(:\n")
    with pytest.raises(sm.errors.ArgumentError, match=r"wrong\.py:2: "):
        _called(f"{wrong}:f")
