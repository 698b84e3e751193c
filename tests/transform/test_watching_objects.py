"""Numbers in objects that a compiled function reaches in a roundabout way are never old."""

from __future__ import annotations

import dataclasses
import functools
import sys
import types
from array import array
from collections import ChainMap, OrderedDict, UserDict, defaultdict, deque
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.errors import TraceError

X = sm.asarray([1.0, 2.0])


class Scale:
    def __init__(self, by: float = 1.0) -> None:
        self.by = by

    def run(self, x: sm.Tensor) -> sm.Tensor:
        return x * self.by


class Wider(Scale):
    def twice(self, x: sm.Tensor) -> sm.Tensor:
        return super().run(x)


class Holder:
    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.parts = [inner]

    @property
    def inner(self) -> Any:
        return self._inner

    def run(self, x: sm.Tensor) -> sm.Tensor:
        result: sm.Tensor = self._inner.run(x)
        return result

    def __getitem__(self, place: int) -> Any:
        return self._inner.by

    def __len__(self) -> int:
        return int(self._inner.by)

    def __matmul__(self, x: sm.Tensor) -> Any:
        return x * self._inner.by


def helper(one: Any, x: sm.Tensor) -> Any:
    return one.run(x)


def through_parts(holder: Holder, x: sm.Tensor) -> sm.Tensor:
    for part in holder.parts:
        x = part.run(x)
    return x


def through_a_pair(one: Scale, x: sm.Tensor) -> sm.Tensor:
    other, _ = one, 2
    return other.run(x)


def through_a_choice(one: Scale, x: sm.Tensor) -> sm.Tensor:
    other = one if x.shape else Scale(7.0)
    return other.run(x)


def made_inside(one: Scale, x: sm.Tensor) -> sm.Tensor:
    class Made:
        def __init__(self) -> None:
            self.by = one.by

    return x * Made().by


# Each is given an object, one that holds it, and a list of both.
WAYS: dict[str, Callable[[Any, Any, Any, sm.Tensor], Any]] = {
    "list": lambda one, holder, both, x: both[0].run(x),
    "dictionary": lambda one, holder, both, x: {"a": one}["a"].run(x),
    "loop": lambda one, holder, both, x: through_parts(holder, x),
    "fold": lambda one, holder, both, x: functools.reduce(lambda x, part: part.run(x), both[:1], x),
    "helper": lambda one, holder, both, x: helper(one, x),
    "function of the class": lambda one, holder, both, x: Scale.run(one, x),
    "pair": lambda one, holder, both, x: through_a_pair(one, x),
    "choice": lambda one, holder, both, x: through_a_choice(one, x),
    "walrus": lambda one, holder, both, x: (other := one).run(x) + 0 * other.by,
    "attribute of a property": lambda one, holder, both, x: x * holder.inner.by,
    "method of a property": lambda one, holder, both, x: holder.inner.run(x),
    "method of a part": lambda one, holder, both, x: both[1].run(x),
    "index": lambda one, holder, both, x: x * holder[0],
    "length": lambda one, holder, both, x: x * len(holder),
    "operator": lambda one, holder, both, x: holder @ x,
    "class made inside": lambda one, holder, both, x: made_inside(one, x),
    "base class": lambda one, holder, both, x: one.twice(x),
}


@pytest.mark.parametrize("way", WAYS)
def test_numbers_of_objects(way: str) -> None:
    one, other = Wider(), Holder(Scale(3.0))
    holder = Holder(one)
    both = [one, holder]
    closed = sm.jit(lambda x: other.run(WAYS[way](one, holder, both, x)))
    given = sm.jit(lambda x, both: WAYS[way](both[0], both[1], both, x))
    assert closed(X).tolist() == [3, 6]
    assert given(X, both).tolist() == [1, 2]
    one.by = 5.0
    assert closed(X).tolist() == [15, 30]
    assert given(X, both).tolist() == [5, 10]


class Attributes(dict[str, Any]):
    """As configurations often are."""

    __getattr__ = dict.__getitem__


@pytest.mark.parametrize("make", [OrderedDict, Attributes, UserDict, ChainMap, lambda d: defaultdict(float, d)])
def test_dictionaries_of_all_kinds(make: Callable[[dict[str, Any]], Any]) -> None:
    given = make({"scale": 2.0, "w": sm.ones(2)})
    f = sm.jit(lambda x: x * given["scale"] + given["w"])
    assert f(X).tolist() == [3, 5]
    given["scale"], given["w"] = 3.0, sm.zeros(2)
    assert f(X).tolist() == [3, 6]


def test_numbers_in_unusual_places() -> None:
    queue, numbers, variable = deque([2.0]), array("d", [2.0]), ContextVar("scale", default=2.0)
    settings = Attributes(scale=2.0)

    def by_attribute(x: sm.Tensor) -> sm.Tensor:
        return x * by_attribute.scale  # type: ignore[attr-defined]

    by_attribute.scale = 2.0  # type: ignore[attr-defined]
    functions = [
        sm.jit(by_attribute),
        sm.jit(lambda x: x * queue[0]),
        sm.jit(lambda x: x * numbers[0]),
        sm.jit(lambda x: x * variable.get()),
        sm.jit(lambda x: x * settings.scale),
    ]
    for f in functions:
        assert f(X).tolist() == [2, 4]
    by_attribute.scale = queue[0] = numbers[0] = settings["scale"] = 3.0  # type: ignore[attr-defined]
    variable.set(3.0)
    for f in functions:
        assert f(X).tolist() == [3, 6]


def test_a_module_that_is_imported_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "settings_of_a_test.py").write_text("scale = 2.0\nshift = 1.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def f(x: sm.Tensor) -> sm.Tensor:
        import settings_of_a_test as settings  # type: ignore[import-not-found]
        from settings_of_a_test import shift

        return x * settings.scale + shift

    f = sm.jit(f)
    assert f(X).tolist() == [3, 5]
    sys.modules["settings_of_a_test"].__dict__.update(scale=3.0, shift=0.0)
    assert f(X).tolist() == [3, 6]


def test_a_module_of_a_branch_that_is_not_taken_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_module_of_a_test.py").write_text("raise RuntimeError('imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def f(x: sm.Tensor, is_plotted: bool = False) -> sm.Tensor:
        if is_plotted:
            import broken_module_of_a_test as plots  # type: ignore[import-not-found]

            plots.plot(x)
        return x * 2

    f = sm.jit(f)
    assert f(X).tolist() == [2, 4]
    with pytest.raises(RuntimeError, match="imported"):
        f(X, True)


def test_functions_of_a_custom_gradient() -> None:
    slope = 2.0
    double = sm.custom_vjp(lambda x: x * 2)
    double.defvjp(lambda x: (x * 2, None), lambda kept, ct: (ct * slope,))
    f = sm.jit(sm.grad(lambda x: double(x).sum()))
    assert f(X).tolist() == [2, 2]
    slope = 5.0
    assert f(X).tolist() == [5, 5]


def test_constants_that_jit_cannot_follow_are_refused() -> None:
    kept = [sm.zeros(2)]
    hide = [kept].__getitem__
    with pytest.raises(TraceError, match=r"float32\(2,\) that it is not given, and in a way that jit cannot follow"):
        sm.jit(lambda x: x + hide(0)[0])(X)


class Slotted:
    __slots__ = ("config", "total")

    def __init__(self) -> None:
        self.config, self.total = Settings(), sm.zeros(2)


class Settings:
    def __init__(self) -> None:
        self.scale = 2.0


@dataclasses.dataclass(slots=True)
class Slots:
    total: sm.Tensor


def test_tensors_that_are_set_in_slots_are_set_by_every_call() -> None:
    kept, state = Slotted(), Slots(sm.zeros(2))

    @sm.jit
    def f(given: Any, x: sm.Tensor) -> sm.Tensor:
        kept.total = kept.total + x
        given.total = given.total + 2 * x
        return x * 2

    for calls in (1, 2, 3):
        for given in (state, Slotted()):
            f(given, sm.ones(2))
        assert kept.total.tolist() == [2 * calls] * 2 and state.total.tolist() == [2 * calls] * 2


def test_what_is_read_through_slots_is_seen() -> None:
    kept = Slotted()
    f = sm.jit(lambda x: x * kept.config.scale)
    assert f(sm.ones(1)).tolist() == [2.0]
    kept.config.scale = 5.0
    assert f(sm.ones(1)).tolist() == [5.0]


class Named:
    """Equal to what has the same name."""

    def __init__(self, name: str, scale: float) -> None:
        self.name, self.scale = name, scale

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)


@dataclasses.dataclass(frozen=True)
class Partly:
    name: str
    scale: float = dataclasses.field(compare=False)


@pytest.mark.parametrize("static", [(), "config"])
@pytest.mark.parametrize("kind", [Named, Partly])
def test_objects_that_are_equal_may_still_differ_in_what_is_read(kind: Any, static: Any) -> None:
    f = sm.jit(lambda x, config: x * config.scale, static=static)
    assert [f(X, kind("a", scale)).tolist() for scale in (1.0, 5.0, 1.0)] == [[1.0, 2.0], [5.0, 10.0], [1.0, 2.0]]
    assert "traces=2" in repr(f)


@pytest.mark.parametrize("config", [Named("a", 1.0), Scale(1.0)])
def test_static_objects_that_change_are_traced_again(config: Any) -> None:
    f = sm.jit(lambda x, config: x * getattr(config, "scale", 0.0) + x * getattr(config, "by", 0.0), static="config")
    assert f(X, config).tolist() == [1.0, 2.0]
    config.scale = config.by = 2.0
    assert f(X, config).tolist() == [4.0, 8.0]


class Registry:
    """Keeps its attributes elsewhere, as modules of PyTorch do."""

    def __init__(self, **items: Any) -> None:
        self.items = items

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["items"][name]
        except KeyError:
            raise AttributeError(name) from None


def test_attributes_that_a_class_computes_are_seen() -> None:
    registry = Registry(inner=Registry(weight=np.ones(2, np.float32), scale=1.0))
    f = sm.jit(lambda x: x * registry.inner.weight * registry.inner.scale)
    assert f(X).tolist() == [1.0, 2.0]
    registry.inner.weight[:] = 3
    assert f(X).tolist() == [3.0, 6.0]
    registry.inner.items["scale"] = 2.0
    assert f(X).tolist() == [6.0, 12.0]
    registry.items["inner"] = Registry(weight=np.ones(2, np.float32), scale=1.0)
    assert f(X).tolist() == [1.0, 2.0] and f(X).tolist() == [1.0, 2.0]


def _named(settings: Any) -> dict[str, Callable[[Any], Any]]:
    name, letter, held = "b", "", [settings]
    return {
        "name": lambda x: x * getattr(settings, name),
        "loop": lambda x: x * sum(getattr(settings, each) for each in ("b",)),
        "call": lambda x: x * getattr(held[0], "".join(["b"])),
        "text": lambda x: x * getattr(settings, f"b{letter}"),
        "sum": lambda x: x * getattr(settings, "b" + letter),
        "format": lambda x: x * getattr(settings, "%s" % "b"),  # noqa: UP031
        "default": lambda x: x * getattr(settings, name, "missing"),
        "constant default": lambda x: x * getattr(settings, "b", 1.0),
        "chain": lambda x: x * getattr(getattr(types.SimpleNamespace(s=settings), "s"), name),  # noqa: B009
    }


@pytest.mark.parametrize("how", _named(None))
def test_attributes_whose_names_are_computed_are_seen(how: str) -> None:
    settings = types.SimpleNamespace(a=2.0, b=3.0)
    f = sm.jit(_named(settings)[how])
    assert f(sm.ones(1)).tolist() == [3.0]
    settings.b = 7.0
    assert f(sm.ones(1)).tolist() == [7.0]


def test_whether_there_is_an_attribute_is_seen() -> None:
    settings = types.SimpleNamespace(a=2.0)
    f = sm.jit(lambda x: x * 2 if hasattr(settings, "q") else x)
    assert f(sm.ones(1)).tolist() == [1.0]
    settings.q = True
    assert f(sm.ones(1)).tolist() == [2.0]
    del settings.q
    assert f(sm.ones(1)).tolist() == [1.0]
