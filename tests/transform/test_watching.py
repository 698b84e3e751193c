"""What a compiled function reads from outside is never old: programs as users write them."""

# ruff: noqa: PLW0108 (users write such lambdas)

from __future__ import annotations

import dataclasses
import functools
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.errors import ArgumentError, DonatedError, TraceError
from smelt.transform.jit import Jit

X = sm.asarray([1.0, 2.0, 3.0])


def values(x: sm.Tensor) -> list[float]:
    return x.tolist()


class Counted:
    """A function that counts how often it is traced."""

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        self.traces: list[None] = []
        traces = self.traces

        @functools.wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:
            traces.append(None)
            return function(*args, **kwargs)

        self.jitted = sm.jit(counted, **options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.jitted(*args, **kwargs)

    def __len__(self) -> int:
        return len(self.traces)


# --- objects that hold a model


@pytest.mark.parametrize("donate", [(), (0,)])
@pytest.mark.parametrize("way", ["lambda", "method", "decorated"])
def test_a_trainer_predicts_with_the_weights_that_it_has(way: str, donate: tuple[int, ...]) -> None:
    class Trainer:
        def __init__(self) -> None:
            self.model = sm.nn.Linear(3, 1, bias=False)
            ways: dict[str, Any] = {"lambda": lambda x: self.model(x), "method": self.forward}
            self.predict = self.decorated if way == "decorated" else sm.jit(ways[way])
            self.step = sm.jit(lambda model, x: model.map(lambda w: w - 0.1 * x), donate=donate)

        def forward(self, x: sm.Tensor) -> sm.Tensor:
            return self.model(x)

        @sm.jit
        def decorated(self, x: sm.Tensor) -> sm.Tensor:
            return self.model(x)

    trainer = Trainer()
    for _ in range(4):
        found = values(trainer.predict(X))
        assert found == pytest.approx(values(trainer.model(X)), rel=1e-5)
        trainer.model = trainer.step(trainer.model, X)


def test_an_object_as_an_argument_shows_its_new_tensors() -> None:
    class State:
        def __init__(self) -> None:
            self.weight, self.scale = X, 1.0

    state = State()
    f = Counted(lambda state, x: x + state.weight * state.scale)
    assert values(f(state, X)) == [2, 4, 6]
    state.weight = X * 2
    assert values(f(state, X)) == [3, 6, 9]
    assert len(f) == 1  # another tensor is an input
    state.scale = 2.0
    assert values(f(state, X)) == [5, 10, 15]
    assert len(f) == 2  # a number of an object is part of the structure


def test_objects_inside_objects_slots_and_class_attributes() -> None:
    class Inner:
        __slots__ = ("weight",)

    class Outer:
        factor = 1.0

        def __init__(self) -> None:
            self.inner, self.parts, self.more = Inner(), [Inner()], {"w": X}
            self.inner.weight = self.parts[0].weight = X

        @property
        def weight(self) -> Any:
            return self.inner.weight * self.factor

    outer = Outer()

    def function(x: Any) -> Any:
        other = outer
        total = x + other.weight + outer.more["w"]
        for part in other.parts:
            total = total + part.weight
        return total

    f = sm.jit(function)
    assert values(f(X)) == [4, 8, 12]
    outer.inner.weight = X * 2
    assert values(f(X)) == [5, 10, 15]
    outer.parts[0].weight = X * 3
    assert values(f(X)) == [7, 14, 21]
    outer.more["w"] = X * 0
    assert values(f(X)) == [6, 12, 18]
    Outer.factor = 2.0
    assert values(f(X)) == [8, 16, 24]


def test_weights_that_were_donated_are_not_answered_from() -> None:
    class Holder:
        weight = X * 1

    holder = Holder()
    holder.weight = (X * 2 - X).realize()  # nobody else has it
    f = sm.jit(lambda x: x + holder.weight)
    assert values(f(X)) == [2, 4, 6]
    sm.jit(lambda w: w * 2, donate=0)(holder.weight)
    with pytest.raises(DonatedError):
        f(X)


def test_what_jit_cannot_follow_is_refused() -> None:
    kept = [X]
    hide = iter([kept]).__next__

    with pytest.raises(TraceError, match="not given, and in a way that jit cannot follow"):
        sm.jit(lambda x: x + hide()[0])(X)


def test_methods_of_base_classes() -> None:
    class Base:
        scale = X

        def forward(self, x: Any) -> Any:
            return x * self.scale

    class Child(Base):
        def forward(self, x: Any) -> Any:
            return super().forward(x) + 1

    child = Child()
    f = sm.jit(lambda x: child.forward(x))
    assert values(f(X)) == [2, 5, 10]
    child.scale = X * 0
    assert values(f(X)) == [1, 1, 1]


# --- one step away


_scale: Any = 2.0
_weight = sm.ones((3,))


def _helper(x: sm.Tensor) -> sm.Tensor:
    return x * _scale + _weight


def _through_helper(x: sm.Tensor) -> sm.Tensor:
    return _helper(x)


def test_what_a_helper_reads_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    @functools.wraps(_helper)
    def decorated(x: sm.Tensor) -> sm.Tensor:
        return _helper(x)

    functions: list[Any] = [_through_helper, lambda x: _through_helper(x), decorated, sm.jit(_helper)]
    jitted = [sm.jit(function) for function in functions]
    assert [values(f(X)) for f in jitted] == [[3, 5, 7]] * 4
    monkeypatch.setitem(globals(), "_scale", 3.0)
    monkeypatch.setitem(globals(), "_weight", X)
    assert [values(f(X)) for f in jitted] == [[4, 8, 12]] * 4


def test_a_helper_that_is_replaced_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    bonus = X

    f = sm.jit(_through_helper)
    assert values(f(X)) == [3, 5, 7]
    monkeypatch.setitem(globals(), "_helper", lambda x: x + bonus)
    assert values(f(X)) == [2, 4, 6]
    bonus = X * 2
    assert values(f(X)) == [3, 6, 9]


def test_partial_functions() -> None:
    weight = X

    def add(factor: float, x: sm.Tensor, more: Any = None) -> sm.Tensor:
        return x * factor + weight + (0 if more is None else more["w"])

    state = {"w": X}
    f, g = sm.jit(functools.partial(add, 2.0)), sm.jit(lambda x: functools.partial(add, 2.0, more=state)(x))
    assert (values(f(X)), values(g(X))) == ([3, 6, 9], [4, 8, 12])
    weight = X * 2
    state["w"] = X * 0
    assert (values(f(X)), values(g(X))) == ([4, 8, 12], [4, 8, 12])
    h = sm.jit(functools.partial(add, 2.0, more=state))
    assert values(h(X)) == [4, 8, 12]
    state["w"] = X
    assert values(h(X)) == [5, 10, 15]


def test_a_dropout_in_a_closure_is_switched_off() -> None:
    drop = sm.nn.Dropout(0.5)
    x = sm.ones((1000,))
    for f in (sm.jit(lambda x: drop(x)), sm.jit(drop), sm.jit(functools.partial(drop))):
        drop.train()
        assert float(f(x).min()) == 0
        drop.eval()
        assert float(f(x).min()) == 1


def test_dictionaries_and_lists_of_numbers() -> None:
    options: dict[str, Any] = {"scale": 2.0, 3: "odd keys"}
    powers = [1, 2]
    f = sm.jit(lambda x: sum((x**p for p in powers), x * options["scale"]))
    assert values(f(X)) == [4, 10, 18]
    options["scale"] = 0.0
    powers.append(0)
    assert values(f(X)) == [3, 7, 13]


def test_a_module_that_reads_a_global(monkeypatch: pytest.MonkeyPatch) -> None:
    class Scaled(sm.nn.Module):
        def __init__(self) -> None:
            self.config = Config()
            self.w = X

        def __call__(self, x: sm.Tensor) -> sm.Tensor:
            return self.helped(x) * self.config.factor

        def helped(self, x: sm.Tensor) -> sm.Tensor:
            return x * self.w * _scale

    module = Scaled()
    closed, given = sm.jit(lambda x: module(x)), sm.jit(lambda m, x: m(x))
    assert values(closed(X)) == values(given(module, X)) == [2, 8, 18]
    monkeypatch.setitem(globals(), "_scale", 1.0)
    assert values(closed(X)) == values(given(module, X)) == [1, 4, 9]
    module.config.factor = 3.0
    assert values(closed(X)) == values(given(module, X)) == [3, 12, 27]


class Config:
    def __init__(self) -> None:
        self.factor = 1.0


# --- arrays of other libraries


class Foreign:
    """As PyTorch's tensors: hashable, and speaking the protocols."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("kind", [sm.asarray, np.asarray, Foreign])
def test_what_a_function_reads_is_searched_once_for_each_trace(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []
    search = Jit._searched
    monkeypatch.setattr(Jit, "_searched", lambda *given: searched.append(1) or search(*given))  # type: ignore[func-returns-value]
    f = sm.jit(lambda x, pair, y=None: x + pair[0] + y)
    for k in range(3):
        one, two, three = (kind(np.full(3, k + j, np.float32)) for j in range(3))
        assert f(one, (two, 2.0), y=three).tolist() == [3.0 * k + 3] * 3
    assert len(searched) == 1


@pytest.mark.parametrize("kind", [np.asarray, Foreign])
def test_arrays_are_inputs(kind: Callable[[Any], Any]) -> None:
    array = np.array([1, 2, 3], np.float32)
    f = Counted(lambda x, more: x["x"] * 2 + more[0])
    assert values(f({"x": kind(array)}, [kind(array)])) == [3, 6, 9]
    array[:] = 1
    assert values(f({"x": kind(array)}, more=[kind(array)])) == [3, 3, 3]
    for k in range(5):
        batch = np.full(3, k, np.float32)
        assert values(f({"x": kind(batch)}, [X])) == [2 * k + 1, 2 * k + 2, 2 * k + 3]
    assert len(f) == 2  # once by position and once by name


def test_results_do_not_share_the_memory_of_an_array() -> None:
    array = np.array([1, 2, 3], np.float32)
    same = sm.jit(lambda x: x)(array)
    array[:] = 0
    assert values(same) == [1, 2, 3]


@pytest.mark.parametrize("make", [iter, lambda items: (item for item in items), lambda items: zip(items, strict=True)])
def test_iterators_are_refused(make: Callable[[list[sm.Tensor]], Any]) -> None:
    """They would give the first call's item for ever."""
    items = make([sm.ones(3), sm.zeros(3)])
    f = sm.jit(lambda x: x * next(items)[0])
    with pytest.raises(TraceError, match=r"gives something else each time(.|\n)*next\(\) outside"):
        f(X)


def test_arrays_in_closures_count_by_content_and_large_ones_are_refused() -> None:
    array = np.array([1, 2, 3], np.float32)
    f = sm.jit(lambda x: x + sm.asarray(np.sin(array) * 0) + array)
    assert values(f(X)) == [2, 4, 6]
    array[0] = 5
    assert values(f(X)) == [6, 4, 6]
    large = np.zeros(1 << 20, np.float32)
    with pytest.raises(TraceError, match="4,194,304 bytes"):
        sm.jit(lambda x: x + large[:3])(X)
    with pytest.raises(ArgumentError, match="neither a tensor nor hashable"):
        sm.jit(lambda x, k: x, static="k")(X, Foreign(array))


# --- attributes that a function sets


def test_an_attribute_that_a_compiled_call_sets() -> None:
    class Net(sm.nn.Module):
        def __init__(self) -> None:
            self.w = X
            self.last: Any = None

        def __call__(self, x: sm.Tensor) -> sm.Tensor:
            self.last = x * self.w
            self.pair = (x, {"sum": self.last.sum()})
            return self.last + 1

    net = Net()
    for f in (sm.jit(lambda x: net(x)), sm.jit(lambda x: sm.grad(lambda x: net(x).sum())(x)), sm.jit(net)):
        for k in (1, 2, 3):
            f(X * k)
            assert values(net.last) == [k, 4 * k, 9 * k]
            assert float(net.pair[1]["sum"]) == 14 * k
    given = sm.jit(lambda net, x: net(x))
    given(net, X * 5)
    assert values(net.last) == [5, 20, 45]


def test_an_attribute_of_a_plain_object_that_a_compiled_call_sets() -> None:
    class Filter:
        def __init__(self) -> None:
            self.mean = sm.zeros((3,))

            self.total, self.calls, self.seconds = sm.ones((3,)), 0, 1.5

        @sm.jit
        def update(self, x: sm.Tensor) -> sm.Tensor:
            self.calls += 1
            self.seconds -= 0.25
            self.total += x
            self.mean = 0.5 * self.mean + 0.5 * x
            return self.mean

    one = Filter()
    for k, expected in enumerate([[0.5, 1.0, 1.5], [0.75, 1.5, 2.25]]):
        assert values(one.update(X)) == expected
        assert values(one.mean) == expected
        assert values(one.total) == values(X * (k + 1) + 1)
    assert (one.calls, one.seconds) == (2, 1.0)
    assert "traces=1" in repr(Filter.update)  # what the function only counts up makes no new trace


def test_sums_and_other_changes_of_attributes() -> None:
    class Log:
        def __init__(self) -> None:
            self.total: Any = 0
            self.scale, self.count = 1.0, 0

        @sm.jit
        def add(self, x: sm.Tensor) -> sm.Tensor:
            self.total += x.sum()
            self.scale *= 2
            self.count = getattr(self, "count") + 1  # noqa: B009
            return x

    log = Log()
    for _ in range(4):
        log.add(X)
    assert (float(log.total), log.scale, log.count) == (24, 16, 4)


def test_counts_that_some_objects_have() -> None:
    class Part:
        def __init__(self, counts: bool) -> None:
            if counts:
                self.count = 0

        def run(self, x: sm.Tensor) -> sm.Tensor:
            if hasattr(self, "count"):
                self.count += 1
            return x * 2

    parts = [Part(True), Part(False)]
    f = sm.jit(lambda x: parts[1].run(parts[0].run(x)))
    for _ in range(3):
        assert values(f(X)) == [4, 8, 12]
    assert parts[0].count == 3


def test_attributes_that_are_one_object_at_first() -> None:
    class Agent:
        def __init__(self) -> None:
            self.before = self.now = sm.zeros(3)
            self.target = self.network = {"w": sm.zeros(3)}

        @sm.jit
        def step(self, x: sm.Tensor) -> sm.Tensor:
            self.before, self.now = self.now, x
            self.target, self.network = self.network, {"w": self.network["w"] + x}
            return x

    agent = Agent()
    for k in range(3):
        agent.step(X + k)
    assert values(agent.before) == values(X + 1)
    assert values(agent.target["w"]) == values(2 * X + 1)
    assert values(agent.network["w"]) == values(3 * X + 3)


def test_a_module_that_is_changed_and_given_back() -> None:
    def doubled(layer: sm.nn.Linear, x: sm.Tensor) -> sm.nn.Linear:
        layer.weight = layer.weight * 2
        return layer

    layer = sm.nn.Linear(3, 1)
    first, f = layer.weight, sm.jit(doubled)
    for _ in range(3):
        layer = f(layer, X)
    np.testing.assert_allclose(layer.weight.numpy(), first.numpy() * 8)
    norm = sm.nn.BatchNorm1d(3)
    g = sm.jit(lambda norm, x: (norm(x), norm))
    for _ in range(2):
        _, norm = g(norm, sm.stack([X, X + 1]))
    assert int(norm.num_batches_tracked) == 2


def test_results_that_later_calls_could_not_give_are_refused() -> None:
    class Pair:
        def __init__(self, x: sm.Tensor) -> None:
            self.x = x

    async def later(x: sm.Tensor) -> sm.Tensor:
        return x

    once: list[Callable[..., Any]] = [lambda x: (x + k for k in range(2)), lambda x: zip([x], [x], strict=True), later]
    for function in once:
        with pytest.raises(TraceError, match="can be used only once"):
            sm.jit(function)(X)
    with pytest.raises(TraceError, match="a Pair that holds tensors"):
        sm.jit(Pair)(X)


def test_ordered_dictionaries_and_queues_are_trees() -> None:
    f = sm.jit(lambda x: OrderedDict(b=x, a=deque([x + 1], maxlen=3)))
    for _ in range(2):
        result = f(X)
        assert list(result) == ["b", "a"]
        assert result["a"].maxlen == 3
        assert values(result["a"][0]) == [2, 3, 4]
    assert values(sm.jit(lambda d: d["b"])(OrderedDict(b=X))) == values(X)


def test_sizes_that_are_given_back_are_numbers() -> None:
    f = sm.jit(lambda x: (x.sum(), x.shape[0], 2 * x.shape[0] + 1), dynamic=True)
    for size in range(3, 8):
        assert f(sm.ones(size))[1:] == (size, 2 * size + 1)


# --- what is not read is not watched


losses: list[float] = []


def test_a_global_that_shares_its_name_with_an_attribute_is_not_watched() -> None:
    losses.clear()
    model, opt = sm.nn.Linear(3, 2), sm.optim.AdamW(lr=1e-3)
    state = opt.init(model)

    def step(model: Any, state: Any, x: Any, y: Any) -> Any:
        loss, grads = sm.value_and_grad(lambda m: sm.nn.losses.cross_entropy(m(x), y))(model)
        model, state = opt.update(model, grads, state)
        return model, state, loss

    f = Counted(step, donate=(0, 1))
    for _ in range(4):
        model, state, loss = f(model, state, sm.ones((4, 3)), sm.zeros((4,), dtype=sm.int64))
        losses.append(float(loss))
    assert len(f) == 1
    assert losses == sorted(losses, reverse=True)


def test_loops_that_people_write_are_traced_once() -> None:
    class Loop:
        def __init__(self) -> None:
            self.model, self.opt = sm.nn.Linear(3, 1), sm.optim.SGD(lr=0.1)
            self.state = self.opt.init(self.model)
            self.average = self.model.copy()
            self.losses: list[Any] = []
            self.shapes: list[Any] = []
            self.best, self.epoch, self.log = 1e9, 0, {"loss": 0.0}

        def loss(self, model: Any, x: Any, y: Any) -> Any:
            return ((model(x) - y) ** 2).mean()

        def step(self, x: Any, y: Any) -> Any:
            self.shapes.append(x.shape)
            loss, grads = sm.value_and_grad(self.loss)(self.model, x, y)
            model, state = self.opt.update(self.model, grads, self.state)
            average = sm.tree.map(lambda a, b: 0.9 * a + 0.1 * b, self.average, model)
            return model, state, average, loss

    loop = Loop()
    step, predict = Counted(loop.step), Counted(lambda x: loop.model(x))
    predictions = []
    data = [(sm.full((5, 3), float(k)), sm.ones((5, 1))) for k in range(4)]
    for (x, y), (x2, _) in zip(data, data, strict=True):
        loop.model, loop.state, loop.average, loss = step(x, y)
        loop.losses.append(loss)
        loop.log["loss"] = float(loss)
        loop.epoch += 1
        predictions.append(predict(x2).numpy())
        loop.best = min(loop.best, float(loss))
    assert (len(step), len(predict)) == (2, 1)  # at first, the average and the model are the same tensors
    assert len(predictions) == loop.epoch == 4


def test_a_frozen_dataclass_counts_by_value() -> None:
    @dataclasses.dataclass(frozen=True)
    class Options:
        power: int

    f = Counted(lambda x, options: x**options.power)
    assert values(f(X, Options(2))) == values(f(X, Options(2))) == [1, 4, 9]
    assert values(f(X, Options(1))) == [1, 2, 3]
    assert len(f) == 2
