"""Building OpenCL programs, with a stand-in for pyopencl: what compilers say is heard only where they refuse."""

from __future__ import annotations

import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from smelt.config import configure
from smelt.device import opencl_build
from smelt.errors import InternalError


class CompilerWarning(UserWarning):
    """As pyopencl gives it."""


class CompilerError(Exception):
    """What pyopencl calls Error."""


class Program:
    """Its compiler always has something to say."""

    def __init__(self, context: object, *parts: Any) -> None:
        self.parts = parts

    def build(self, **given: Any) -> Program:
        if self.parts[0] == "wrong":
            raise CompilerError("line 1: what is this?")
        warnings.warn("Non-empty compiler output encountered.", CompilerWarning, stacklevel=2)
        return self

    def get_info(self, which: object) -> list[bytes]:
        return [b"binary"]


def context() -> Any:
    cl = SimpleNamespace(
        Program=Program,
        Error=CompilerError,
        CompilerWarning=CompilerWarning,
        program_info=SimpleNamespace(BINARIES=0),
        device_fp_config=SimpleNamespace(CORRECTLY_ROUNDED_DIVIDE_SQRT=1),
    )
    device = SimpleNamespace(single_fp_config=1)
    return SimpleNamespace(cl=cl, device=device, handle=object(), identity="a stand-in")


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opencl_build, "_libraries", {})


def test_what_a_compiler_says_is_no_warning(tmp_path: Path) -> None:
    with configure(cache_dir=tmp_path), warnings.catch_warnings():
        warnings.simplefilter("error")
        built = opencl_build.build(context(), "right")
        opencl_build._libraries.clear()
        stored = opencl_build.stored(context(), built.key)  # a binary is built, too
        assert stored is not None
        assert stored is not built


def test_other_warnings_are_still_heard(tmp_path: Path) -> None:
    with configure(cache_dir=tmp_path):
        opencl_build.build(context(), "right")
    with pytest.warns(CompilerWarning):
        Program(None, "right").build()


def test_what_a_compiler_says_is_kept_when_it_refuses(tmp_path: Path) -> None:
    with configure(cache_dir=tmp_path), pytest.raises(InternalError, match="refused") as refused:
        opencl_build.build(context(), "wrong")
    kept = Path(str(refused.value).rpartition(" as ")[2].splitlines()[0])
    assert kept.read_text(encoding="utf-8") == "wrong"
    assert kept.with_suffix(".txt").read_text(encoding="utf-8") == "line 1: what is this?"
