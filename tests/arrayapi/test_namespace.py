"""Names and signatures: everything the standard lists is here as it says, or is listed as missing."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.errors import ArgumentError, DeviceError
from tests.arrayapi import standard
from tests.arrayapi.state import DEVIATIONS, MISSING, SPELLED_OTHERWISE

ROOT = Path(__file__).resolve().parents[2]
FUNCTIONS = [f for f in standard.FUNCTIONS.values() if f.name not in MISSING]
METHODS = {name: text for name, text in standard.METHODS.items() if f"array.{name}" not in MISSING}


def has_method(name: str) -> bool:
    method = getattr(sm.Tensor, name, None)
    return method is not None and getattr(method, "__annotations__", {}).get("return") != "Never"


def present() -> dict[str, bool]:
    """Everything that the standard asks for by name, and whether smelt has it."""
    modules = [*standard.FUNCTIONS, *standard.CONSTANTS, *standard.EXTENSIONS]
    names = {name: hasattr(sm, name) for name in modules}
    names |= {name: isinstance(getattr(sm, name, None), sm.DType) for kind in standard.DTYPES.values() for name in kind}
    return names | {f"array.{name}": has_method(name) for name in (*standard.ATTRIBUTES, *standard.METHODS)}


def test_what_is_missing_is_listed_with_a_reason_and_nothing_else_is() -> None:
    assert {name for name, there in present().items() if not there} == set(MISSING)
    assert all(MISSING.values())


@pytest.mark.parametrize("deviation", DEVIATIONS, ids=lambda d: d.what)
def test_what_is_listed_as_different_is(deviation: Any) -> None:
    assert deviation.holds(), "now as the standard says: remove the row"


def problems(wanted: tuple[inspect.Parameter, ...], function: Callable[..., Any], name: str = "") -> list[str]:
    """Why some call that the standard allows would not mean the same here."""
    kinds = inspect.Parameter
    ours = list(inspect.signature(function).parameters.values())
    named = {p.name: p for p in ours if p.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)}
    places = [p for p in ours if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    several = any(p.kind is kinds.VAR_POSITIONAL for p in ours)
    found = []
    met = set()
    for place, parameter in enumerate(wanted):
        mine = named.get(parameter.name)
        if parameter.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD):
            if place < len(places):
                if parameter.kind is kinds.POSITIONAL_OR_KEYWORD and places[place] is not mine:
                    found.append(f"argument {place} is not {parameter.name}")
                mine = places[place]
            elif not several:
                found.append(f"no positional argument {place}")
        if parameter.kind is kinds.VAR_POSITIONAL and not several:
            found.append("does not take any number of arguments")
        if parameter.kind in (kinds.KEYWORD_ONLY, kinds.POSITIONAL_OR_KEYWORD) and parameter.name not in named:
            found.append(f"no keyword {parameter.name}")
        if mine is None:
            continue
        met.add(mine.name)
        different = type(mine.default) is not type(parameter.default) or mine.default != parameter.default
        if parameter.default is not kinds.empty and different and (name, parameter.name) not in SPELLED_OTHERWISE:
            found.append(f"{parameter.name} defaults to {mine.default!r} instead of {parameter.default!r}")
    needed = [p.name for p in [*places, *named.values()] if p.default is kinds.empty and p.name not in met]
    return found + [f"also needs {name}" for name in needed]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.name)
def test_signatures_allow_every_call_of_the_standard(function: standard.Function) -> None:
    assert problems(function.parameters, getattr(sm, function.name), function.name) == []


@pytest.mark.parametrize("name", METHODS)
def test_signatures_of_methods(name: str) -> None:
    assert problems(standard.parsed(METHODS[name]), getattr(sm.zeros((2, 2)), name)) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x, /", "no positional argument 1"),
        ("x, axis, /", "no keyword axis"),
        ("x, *, axis", "no positional argument 1"),
        ("x, /, dim", "argument 1 is not axis"),
        ("x, /, axis, more", "also needs more"),
        ("x, /, axis, *, more", "also needs more"),
    ],
)
def test_signatures_that_do_not_fit_are_found(text: str, problem: str) -> None:
    def function() -> None: ...

    function.__signature__ = inspect.Signature(list(standard.parsed(text)))  # type: ignore[attr-defined]
    assert problem in problems(standard.parsed("x, /, axis"), function)


def test_constants() -> None:
    assert (sm.pi, sm.e, sm.newaxis) == (np.pi, np.e, None)
    assert np.isnan(sm.nan) and sm.inf == np.inf
    assert sm.arange(3)[:, sm.newaxis].shape == (3, 1)


def test_version() -> None:
    assert sm.__array_api_version__ == standard.VERSION
    x = sm.zeros(2)
    for version in (None, "2021.12", "2022.12", "2023.12", standard.VERSION):
        assert x.__array_namespace__(api_version=version) is sm
    for unknown in ("2020.10", "2099.12", "", 2024.12):
        with pytest.raises(ArgumentError, match=r"Use one of: .*2024\.12") as caught:
            x.__array_namespace__(api_version=unknown)  # type: ignore[arg-type]
        assert "test_namespace.py" in str(caught.value)


def test_namespace_information() -> None:
    info = sm.__array_namespace_info__()
    for name, text in standard.INFORMATION.items():
        assert problems(standard.parsed(text), getattr(info, name)) == [], name
    assert info.default_device() == sm.zeros(2).device and info.default_device() in info.devices()
    assert all(sm.zeros(2, device=device).device == device for device in info.devices())
    assert set(info.default_dtypes()) == set(standard.DEFAULTS)
    assert info.default_dtypes(device="cpu") == {
        "real floating": sm.zeros(2).dtype,
        "complex floating": sm.asarray(1j).dtype,
        "integral": sm.arange(2).dtype,
        "indexing": sm.argmax(sm.zeros(2)).dtype,
    }


def test_capabilities_are_what_works() -> None:
    capabilities = sm.__array_namespace_info__().capabilities()
    assert tuple(capabilities) == standard.CAPABILITIES
    dependent = ("nonzero", "unique_all", "unique_counts", "unique_inverse", "unique_values")
    assert capabilities["data-dependent shapes"] is all(hasattr(sm, name) for name in dependent)
    x = sm.arange(3)
    try:
        masked = x[x > 0].tolist() == [1, 2]
    except sm.errors.SmeltError:
        masked = False
    assert capabilities["boolean indexing"] is masked
    rank = capabilities["max dimensions"]
    assert (sm.ones((1,) * rank) + 1).numpy().shape == (1,) * rank


@pytest.mark.parametrize("kind", standard.DTYPE_KINDS)
def test_dtypes_by_kind(kind: str) -> None:
    info = sm.__array_namespace_info__()
    expected = {name: getattr(sm, name) for name in standard.DTYPE_KINDS[kind] if name not in MISSING}
    assert info.dtypes(kind=kind) == expected
    assert info.dtypes(kind=(kind, "bool"), device="cpu") == expected | {"bool": sm.bool}


def test_dtypes_without_a_kind_are_those_of_the_standard() -> None:
    names = {name for kind in standard.DTYPES.values() for name in kind if name not in MISSING}
    assert set(sm.__array_namespace_info__().dtypes()) == names


def test_wrong_questions_about_the_namespace() -> None:
    info = sm.__array_namespace_info__()
    with pytest.raises(ArgumentError, match="there is no kind 'real' of dtypes"):
        info.dtypes(kind="real")
    with pytest.raises(ArgumentError, match="there is no kind 3 of dtypes"):
        info.dtypes(kind=("bool", 3))  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"there is no kind \['bool'\] of dtypes"):
        info.dtypes(kind=["bool"])  # type: ignore[arg-type]
    for question in (info.dtypes, info.default_dtypes):
        with pytest.raises(DeviceError, match="there is no device 'tpu'"):
            question(device="tpu")


def test_devices() -> None:
    x = sm.arange(3)
    assert x.to_device("cpu").tolist() == [0, 1, 2] and x.to_device(x.device, stream=None).device == "cpu"
    with pytest.raises(DeviceError, match="there is no device 'cuda:0'"):
        x.to_device("cuda:0")
    with pytest.raises(DeviceError, match="there is no device '0'"):
        x.to_device(0)
    with pytest.raises(ArgumentError, match="devices have no streams"):
        x.to_device("cpu", stream=1)


def test_the_page_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("generate_array_api", ROOT / "docs" / "generate_array_api.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    written = (ROOT / "docs" / "reference" / "array-api.md").read_text(encoding="utf-8")
    assert written == module.page(), "run docs/generate_array_api.py"
