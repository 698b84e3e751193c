"""Modules as trees: what is found in them, what stays together, what transforms make of them."""

from __future__ import annotations

import copy
import functools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt import tree
from smelt.errors import ArgumentError, ShapeError


class Scale(sm.nn.Module):
    """Multiplies, and remembers a running mean."""

    buffer_names = ("mean",)

    def __init__(self) -> None:
        self.weight = sm.asarray([1.0, 2.0, 3.0])
        self.mean = sm.zeros(3)

    def __call__(self, x: sm.Tensor) -> sm.Tensor:
        if self.training:
            self.mean = 0.5 * self.mean + 0.5 * x.mean(0)
        return x * self.weight - self.mean


class Tied(sm.nn.Module):
    """A weight with two names."""

    def __init__(self) -> None:
        self.first = sm.nn.Linear(3, 3, bias=False)
        self.second = sm.nn.Linear(3, 3, bias=False)
        self.second.weight = self.first.weight

    def __call__(self, x: sm.Tensor) -> sm.Tensor:
        return self.second(self.first(x))


class Nested(sm.nn.Module):
    """Everything that a module can hold."""

    def __init__(self) -> None:
        self.parts = [sm.nn.Linear(2, 2), {"inner": sm.nn.Linear(2, 2, bias=False)}]
        self.pair = (sm.ones(2), 3)
        self.number, self.name, self.flag, self.nothing = 1, "one", True, None
        self.array = np.arange(3)
        self.function = sm.relu

    def __call__(self, x: sm.Tensor) -> sm.Tensor:
        return self.function(self.parts[1]["inner"](self.parts[0](x))) + self.pair[0]  # type: ignore[index,operator]


X = sm.asarray([[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]])


def test_a_module_is_rebuilt_from_its_leaves() -> None:
    module = Nested()
    leaves, structure = tree.flatten(module)
    other = tree.unflatten(structure, leaves)
    assert vars(other).keys() == vars(module).keys()
    assert other.parts[0].weight is module.parts[0].weight  # type: ignore[union-attr,attr-defined]
    assert other.parts is not module.parts
    assert (other.number, other.name, other.flag, other.nothing) == (1, "one", True, None)
    assert type(other.number) is int and type(other.flag) is bool
    assert other.array is module.array
    assert tree.flatten(other)[1] is structure
    assert tree.paths(structure)[:2] == [".parts[0].weight", ".parts[0].bias"]


def test_names_are_those_of_pytorch() -> None:
    assert list(Nested().state_dict()) == ["parts.0.weight", "parts.0.bias", "parts.1.inner.weight", "pair.0"]
    net = sm.nn.Sequential(sm.nn.Linear(2, 3), sm.relu, sm.nn.Sequential(sm.nn.Linear(3, 1)))
    assert list(net.state_dict()) == ["0.weight", "0.bias", "2.0.weight", "2.0.bias"]
    assert [name for name, _ in net.named_modules()] == ["", "0", "2", "2.0"]


@pytest.mark.parametrize("kind", [bool, float])
def test_attributes_that_are_equal_but_not_the_same_make_another_structure(kind: type) -> None:
    one, other = Nested(), Nested()
    other.number = kind(1)
    assert tree.flatten(one)[1] != tree.flatten(other)[1]


class Counter(sm.nn.Module):
    """Counts its calls in a buffer."""

    def __init__(self) -> None:
        self.register_buffer("calls", sm.asarray(0.0))

    def __call__(self, x: sm.Tensor) -> sm.Tensor:
        self.calls = self.calls + 1
        return x


class Twice(sm.nn.Module):
    """Has one module under two names."""

    def __init__(self) -> None:
        self.linear, self.first = sm.nn.Linear(2, 2), Counter()
        self.again = {"x": [self.first]}

    def __call__(self, x: sm.Tensor) -> sm.Tensor:
        return self.again["x"][0](self.linear(self.first(x))).sum()


@pytest.mark.parametrize("way", ["plain", "jit", "grad", "both"])
def test_a_module_with_two_names_stays_one(way: str) -> None:
    def slope(m: Twice, x: sm.Tensor) -> sm.Tensor:
        return sm.value_and_grad(lambda m: m(x))(m)[0]  # type: ignore[no-any-return]

    run = {"plain": lambda m, x: m(x), "jit": sm.jit(lambda m, x: m(x)), "grad": slope, "both": sm.jit(slope)}[way]
    model = Twice()
    for _ in range(3):
        run(model, sm.ones(1, 2))
    assert model.first.calls.item() == 6.0 and model.again["x"][0] is model.first
    copied = model.copy()
    assert copied.again["x"][0] is copied.first is not model.first


def test_tied_weights_stay_tied() -> None:
    module = Tied()
    assert len(module.parameters()) == 1
    assert list(module.state_dict()) == ["first.weight", "second.weight"]
    slope = sm.grad(lambda m: m(X).sum())(module)
    assert slope.first.weight is slope.second.weight
    optimizer = sm.optim.SGD(lr=0.1)
    new, _ = optimizer.update(module, slope, optimizer.init(module))
    assert new.first.weight is new.second.weight
    new.load_state_dict({"second.weight": sm.ones(3, 3)})
    assert new.first.weight is new.second.weight
    assert new.first.weight.tolist() == [[1.0] * 3] * 3


def test_a_gradient_is_a_module_with_zeros_for_what_is_fixed() -> None:
    module = Scale()
    slope = sm.grad(lambda m: m(X).sum())(module)
    assert isinstance(slope, Scale)
    assert slope.weight.tolist() == [4.0, 6.0, 8.0]
    assert slope.mean.tolist() == [0.0] * 3
    frozen = sm.grad(lambda m: m(X).sum())(module.freeze())
    assert frozen.weight.tolist() == [0.0] * 3
    assert sm.grad(lambda m: m(X).sum())(module.unfreeze()).weight.tolist() == [4.0, 6.0, 8.0]


def test_integers_in_a_module_are_no_obstacle() -> None:
    module = Scale()
    module.register_buffer("steps", sm.asarray(3))
    assert sm.grad(lambda m: m(X).sum())(module).weight.tolist() == [4.0, 6.0, 8.0]
    assert list(module.state_dict()) == ["weight", "mean", "steps"]
    assert [name for name, _ in module.named_buffers()] == ["mean", "steps"]


def test_integers_need_not_be_named_as_buffers() -> None:
    module = Scale()
    module.order = sm.asarray([2, 0, 1])  # type: ignore[attr-defined]
    slope = sm.grad(lambda m: m(X[:, m.order]).sum())(module)
    assert slope.weight.tolist() == [8.0, 4.0, 6.0]
    optimizer = sm.optim.SGD(lr=0.5)
    assert optimizer.update(module, slope, optimizer.init(module))[0].order.tolist() == [2, 0, 1]


def grads(m: Scale) -> Any:
    return sm.value_and_grad(lambda m: m(X).sum())(m)


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m(X),
        sm.jit(lambda m: m(X)),
        grads,
        sm.jit(grads),
        lambda m: sm.jvp(lambda m: m(X), (m,), (m,)),
        lambda m: sm.vjp(lambda m: m(X), m),
        sm.checkpoint(lambda m: m(X)),
        lambda m: sm.jit(lambda x: m(x) + 0)(X),
        lambda m: sm.jit(m)(X),
        lambda m: sm.jit(m.__call__)(X),
    ],
    ids=["plain", "jit", "grad", "jit of grad", "jvp", "vjp", "checkpoint", "closure", "jit(module)", "method"],
)
def test_running_means_are_changed_for_the_caller(call: Any) -> None:
    module = Scale()
    call(module)
    assert module.mean.tolist() == [1.0, 1.5, 2.0]
    call(module)
    assert module.mean.tolist() == [1.5, 2.25, 3.0]
    call(module.eval())
    assert module.mean.tolist() == [1.5, 2.25, 3.0]
    call(module.train())
    assert module.mean.tolist() == [1.75, 2.625, 3.5]


def test_vmap_refuses_running_means() -> None:
    with pytest.raises(ArgumentError, match="mean of Scale"):
        sm.vmap(lambda m, x: m(x), in_axes=(None, 0))(Scale(), sm.ones(4, 2, 3))
    assert sm.vmap(lambda m, x: m(x), in_axes=(None, 0))(Scale().eval(), sm.ones(4, 2, 3)).shape == (4, 2, 3)


BODIES: dict[str, Any] = {
    "scan": lambda f, x: sm.scan(lambda carry, _: (f(carry), None), x, length=3),
    "fori_loop": lambda f, x: sm.fori_loop(0, 3, lambda i, now: f(now), x),
    "while_loop": lambda f, x: sm.while_loop(lambda now: now.sum() > 1e9, f, x),
    "cond": lambda f, x: sm.cond(x.sum() < 0, f, lambda x: x, x),
    "vmap": lambda f, x: sm.vmap(lambda row: f(row.expand_dims(0))[0])(x),
}


@pytest.mark.parametrize("name", BODIES)
def test_running_means_are_never_left_without_a_value(name: str) -> None:
    scale, x = Scale(), sm.ones(2, 3)
    before = scale.mean.tolist()
    run = functools.partial(BODIES[name], scale)
    for call in (run, sm.jit(run)):
        with pytest.raises(ArgumentError, match=rf"{name}: the function changes .* of Scale, which .*[\s\S]*eval\(\)"):
            call(x)
        assert scale.mean.tolist() == before
    BODIES[name](scale.eval(), x)


def test_running_means_move_in_a_loop_that_carries_them() -> None:
    def step(carry: Any, x: Any) -> Any:
        scale, total = carry
        return (scale, total + scale(x).sum()), None

    scale, x = Scale(), sm.ones(4, 2, 3)
    (moved, _), _ = sm.scan(step, (scale, sm.asarray(0.0)), x)
    for row in x:
        scale(row)
    assert np.allclose(moved.mean.numpy(), scale.mean.numpy())


def test_a_branch_returns_the_running_means_that_it_moves() -> None:
    def move(scale: Any, x: Any) -> Any:
        y = scale(x)
        return scale, y

    scale, x = Scale(), sm.ones(2, 3)
    moved, _ = sm.cond(x.sum() > 0, move, lambda scale, x: (scale, x), scale, x)
    scale(x)
    assert np.allclose(moved.mean.numpy(), scale.mean.numpy())
    with pytest.raises(ArgumentError, match="cond: the function changes mean of Scale, and does not return it"):
        sm.cond(x.sum() > 0, lambda scale, x: scale(x), lambda scale, x: x, scale, x)


def test_modules_made_in_a_body_may_change() -> None:
    scale = Scale()
    for make in (Scale, scale.copy):
        assert sm.scan(lambda carry, _, make=make: (make()(carry), None), sm.ones(2, 3), length=2)[0].shape == (2, 3)


def test_a_failing_trace_leaves_no_stand_ins() -> None:
    module = Scale()

    @sm.jit
    def fails(x: sm.Tensor) -> sm.Tensor:
        module(x)
        raise ValueError

    with pytest.raises(ValueError):
        fails(X)
    assert module.mean.tolist() == [0.0] * 3


def test_jit_traces_again_for_another_structure_only() -> None:
    traces: list[int] = []

    @sm.jit
    def run(module: sm.nn.Module, x: sm.Tensor) -> sm.Tensor:
        traces.append(1)
        return module(x)

    module = Scale()
    for _ in range(3):
        run(module, X)
    run(module.copy(), X)
    assert len(traces) == 1
    run(module.eval(), X)
    run(module.train(), X)
    assert len(traces) == 2
    run(module.freeze(), X)
    run(module.unfreeze(), X)
    assert len(traces) == 3


def test_a_closure_sees_new_weights() -> None:
    module = sm.nn.Linear(3, 3)
    run = sm.jit(module)
    assert run(X).tolist() == module(X).tolist()
    module.weight = module.weight + 1
    assert run(X).tolist() == module(X).tolist()


def test_modules_go_through_loops() -> None:
    optimizer = sm.optim.SGD(lr=0.01, momentum=0.9)

    def step(state: Any) -> Any:
        module, kept = state
        slopes = sm.grad(lambda m: m(X).square().sum())(module)
        return optimizer.update(module, slopes, kept)

    module = sm.nn.Linear(3, 2)
    start = (module, optimizer.init(module))
    looped = sm.fori_loop(0, 5, lambda _, state: step(state), start)
    for _ in range(5):
        start = step(start)
    np.testing.assert_allclose(looped[0].weight.numpy(), start[0].weight.numpy(), rtol=1e-5)


def test_loading() -> None:
    module = Nested()
    tensors = {name: np.full(tensor.shape, 2.0) for name, tensor in module.state_dict().items()}
    module.load_state_dict(tensors)
    assert module.parts[0].weight.tolist() == [[2.0, 2.0]] * 2  # type: ignore[union-attr,attr-defined]
    assert module.parts[0].weight.dtype is sm.float32  # type: ignore[union-attr,attr-defined]
    assert module.pair[0].tolist() == [2.0, 2.0]  # type: ignore[attr-defined]
    del tensors["pair.0"]
    with pytest.raises(ArgumentError, match=r"missing: pair\.0"):
        module.load_state_dict(tensors)
    module.load_state_dict(tensors, strict=False)
    with pytest.raises(ArgumentError, match="not in the module: more"):
        module.load_state_dict(module.state_dict() | {"more": sm.ones(2)})
    with pytest.raises(ShapeError, match=r"pair\.0 has shape \(3,\)"):
        module.load_state_dict(module.state_dict() | {"pair.0": sm.ones(3)})
    assert module.pair[0].tolist() == [2.0, 2.0]  # type: ignore[attr-defined]


def test_loading_under_names_with_something_in_front() -> None:
    class Net(sm.nn.Module):
        def __init__(self) -> None:
            self.net = sm.nn.Linear(2, 2)

    parallel = {f"module.{name}": tensor for name, tensor in Net().state_dict().items()}
    for strict in (True, False):  # nothing at all in common is a mistake either way
        with pytest.raises(ArgumentError, match=r"Without 'module\.' they fit: {name\.removeprefix\('module\.'\): t"):
            Net().load_state_dict(parallel, strict=strict)
        with pytest.raises(ArgumentError, match=r"With 'net\.' in front they fit: {'net\.' \+ name: t"):
            Net().load_state_dict(sm.nn.Linear(2, 2).state_dict(), strict=strict)
    with pytest.raises(ArgumentError, match="With strict=False they are left out"):
        Net().load_state_dict({"other": sm.ones(2)})
    assert Net().load_state_dict({}, strict=False).net.weight.shape == (2, 2)


def test_loading_what_is_no_dictionary() -> None:
    layer = sm.nn.Linear(2, 2)
    for value, hint in ((sm.nn.Linear(2, 2), r"state_dict\(\)"), ("net.pt", r"sm\.load"), ([sm.ones(2)], "by name")):
        with pytest.raises(ArgumentError, match=f"no dictionary of tensors(.|\n)*{hint}"):
            layer.load_state_dict(value)  # type: ignore[arg-type]


def test_types_and_copies() -> None:
    module = Scale()
    module.register_buffer("steps", sm.asarray(3))
    narrow = module.astype(sm.bfloat16)
    assert narrow.weight.dtype is sm.bfloat16 and narrow.steps.dtype is sm.asarray(3).dtype  # type: ignore[attr-defined]
    other = module.copy()
    other.weight = sm.zeros(3)
    assert module.weight.tolist() == [1.0, 2.0, 3.0]


def test_containers() -> None:
    layers = sm.nn.ModuleList([sm.nn.Linear(2, 2) for _ in range(3)])
    layers.append(sm.nn.Linear(2, 5))
    assert len(layers) == 4 and layers[-1].out_features == 5
    assert len(layers[1:3]) == 2 and layers[1:3][0] is layers[1]
    layers[0] = sm.nn.Linear(2, 7)
    assert [one.out_features for one in layers] == [7, 2, 2, 5]
    named = sm.nn.ModuleDict({"a": sm.nn.Linear(1, 2)})
    named["b"] = sm.nn.Linear(2, 3)
    assert named.keys() == ["a", "b"] and len(named) == 2 and "b" in named
    assert list(named.state_dict()) == ["a.weight", "a.bias", "b.weight", "b.bias"]
    for key in ("keys", "training", "a.b", ""):
        with pytest.raises(ArgumentError, match="cannot be a key"):
            named[key] = sm.nn.Linear(1, 1)
    with pytest.raises(KeyError):
        named["c"]
    with pytest.raises(ArgumentError, match="part 1 is of type int"):
        sm.nn.Sequential(sm.nn.Linear(1, 1), 3)


def test_a_module_without_a_call() -> None:
    class Nothing(sm.nn.Module):
        pass

    class Forward(sm.nn.Module):
        def forward(self, x: int) -> int:
            return x + 1

    with pytest.raises(ArgumentError, match="Nothing cannot be called"):
        Nothing()()
    assert Forward()(1) == 2


def test_pictures() -> None:
    net = sm.nn.Sequential(sm.nn.Linear(4, 8), Tied().eval(), Scale())
    assert repr(net).splitlines()[1] == "  (0): Linear(in_features=4, out_features=8)"
    table = sm.nn.Sequential(sm.nn.Linear(4, 3), Scale().freeze()).summary((2, 4))
    assert table.splitlines()[1:] == [
        "        Sequential  (2, 3)          18",
        "0       Linear      (2, 3)          15",
        "1       Scale       (2, 3)           3",
        "18 parameters, 72 bytes; 3 frozen; 3 numbers in buffers",
    ]


def test_a_summary_prints_nothing_later(capsys: pytest.CaptureFixture[str]) -> None:
    class Shown(sm.nn.Module):
        def __call__(self, x: sm.Tensor) -> sm.Tensor:
            sm.debug.print("seen {}", x)
            return x + 1

    Shown().summary((2,))
    (sm.ones((3,)) + 1).realize()
    assert capsys.readouterr().out == ""


def test_a_summary_changes_nothing() -> None:
    sm.random.seed(0)
    first = sm.random.uniform((3,)).tolist()
    sm.random.seed(0)
    model = sm.nn.Sequential(sm.nn.BatchNorm1d(4), sm.nn.Dropout())
    assert "(2, 4)" in model.summary((2, 4))
    assert model[0].num_batches_tracked.item() == 0
    assert model[0].running_mean.tolist() == [0.0] * 4
    assert sm.random.uniform((3,)).tolist() == first


def test_a_layer_may_know_the_module_it_belongs_to(tmp_path: Path) -> None:
    class Head(sm.nn.Module):
        def __init__(self, owner: sm.nn.Module) -> None:
            self.linear, self.owner = sm.nn.Linear(2, 2), owner

    class Net(sm.nn.Module):
        def __init__(self) -> None:
            self.head = Head(self)

        def __call__(self, x: sm.Tensor) -> sm.Tensor:
            return self.head.linear(x)

    net, other = Net(), Net()
    assert list(net.state_dict()) == ["head.linear.weight", "head.linear.bias"]
    assert "(owner): ..." in repr(net)
    sm.save(net, tmp_path / "net")
    loaded = sm.load(other, tmp_path / "net")
    assert loaded.head.owner is loaded
    other.load_state_dict(net.state_dict())
    x = sm.ones(1, 2)
    assert net(x).tolist() == loaded(x).tolist() == other(x).tolist() == sm.jit(lambda m, x: m(x))(net, x).tolist()


# --- which part an error is in


class Block(sm.nn.Module):
    def __init__(self, width: int) -> None:
        self.layers = [sm.nn.Linear(3, width), sm.nn.Linear(4, 4)]

    def forward(self, x: sm.Tensor) -> sm.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class Deep(sm.nn.Module):
    def __init__(self, width: int) -> None:
        self.body = sm.nn.Sequential(sm.nn.Linear(3, 3), sm.relu, Block(width))
        self.heads = {"small": sm.nn.Sequential(lambda x: x.reshape(7))}

    def __call__(self, x: sm.Tensor) -> sm.Tensor:
        return self.heads["small"](self.body(x))  # type: ignore[no-any-return]


@pytest.mark.parametrize("way", [lambda f: f, sm.jit, lambda f: sm.grad(lambda m, x: f(m, x).sum())])
def test_an_error_says_in_which_part_it_is(way: Any) -> None:
    call = way(lambda model, x: model(x))
    for width, part in ((5, r"body\.2\.layers\.1 \(Linear\)"), (4, r"heads\.small\.0 \(<lambda>\)")):
        with pytest.raises(ShapeError) as caught:
            call(Deep(width), sm.ones(2, 3))
        [note] = caught.value.__notes__
        assert re.fullmatch(f"  in part {part} of Deep", note)
    with pytest.raises(ShapeError) as caught:
        call(sm.nn.Linear(3, 4), sm.ones(2, 5))
    assert not hasattr(caught.value, "__notes__")  # the message says it all


def test_errors_of_other_kinds_say_it_as_well() -> None:
    def broken(x: sm.Tensor) -> sm.Tensor:
        raise KeyError("no such word")

    with pytest.raises(KeyError) as caught:
        sm.nn.Sequential(sm.nn.Linear(3, 3), broken)(sm.ones(2, 3))
    assert caught.value.__notes__ == ["  in part 1 (broken) of Sequential"]


def test_forward_is_as_good_as_call() -> None:
    lines = Block(4).summary((2, 3)).splitlines()
    assert [line.split()[-4:-1] for line in lines[1:2]] == [["Block", "(2,", "4)"]]


def test_a_module_without_a_call_says_what_to_define() -> None:
    class Keras(sm.nn.Module):
        def call(self, x: sm.Tensor) -> sm.Tensor:
            return x

    with pytest.raises(ArgumentError, match=r"Define __call__\(self, x\) in the class, instead of call"):
        Keras()(sm.ones(2))


def test_arrays_that_are_set_over_parameters_are_parameters() -> None:
    layer = sm.nn.Linear(3, 2)
    layer.weight = np.ones((2, 3))  # type: ignore[assignment]
    assert [name for name, _ in layer.named_parameters()] == ["weight", "bias"]
    assert layer.weight.dtype is sm.float32
    assert layer.weight.tolist() == [[1, 1, 1], [1, 1, 1]]
    with pytest.raises(ArgumentError, match="weight is a tensor, and a int would be none"):
        layer.weight = 3  # type: ignore[assignment]
    layer.bias = None
    assert [name for name, _ in layer.named_parameters()] == ["weight"]


def test_modules_may_count_their_calls_and_be_in_another_mode() -> None:
    class Net(sm.nn.Module):
        def __init__(self) -> None:
            self.layer, self.calls, self.seen = sm.nn.Linear(3, 2), 0, ()

        def __call__(self, x: sm.Tensor) -> sm.Tensor:
            self.calls += 1
            self.seen = x.shape
            return self.layer(x)

    net, optimizer, x = Net(), sm.optim.SGD(lr=0.1), sm.ones(4, 3)
    state = optimizer.init(net)
    for _ in range(3):
        _, slopes = sm.value_and_grad(lambda net: (net(x) ** 2).mean())(net)
        net, state = optimizer.update(net, slopes, state)
    assert net.calls == 3
    average = copy.deepcopy(net).eval()
    average = sm.tree.map(lambda a, b: 0.9 * a + 0.1 * b, average, net)
    assert not average.training
