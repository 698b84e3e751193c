"""Names and words that people bring along from other libraries, or misspell: they work, or errors say what to write."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import smelt as sm
import smelt.nn.functional as F
from smelt.brought import CALLED, NAMES, TOLD, TWICE, WORDS
from smelt.errors import ArgumentError, SmeltError, UnknownNameError

# --- names that work


def test_pytorch_lines_that_simply_work() -> None:
    sm.manual_seed(0)
    x = sm.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    assert x.detach().cpu().clone().contiguous().numpy().tolist() == [[1, 2], [3, 4]]
    assert sm.mm(x, x).tolist() == x.mm(x).tolist() == (x @ x).tolist()
    assert sm.dot(x[0], x[1]).item() == 11
    assert x.t().tolist() == [[1, 3], [2, 4]]
    assert sm.randn(2, 3).shape == sm.rand(2, 3).shape == (2, 3)
    assert sorted(sm.randperm(4).tolist()) == [0, 1, 2, 3]
    assert sm.randint(0, 9, (3,)).dtype is sm.int64
    assert x.to(dtype=sm.float16).dtype is x.to(sm.float16).dtype is sm.float16
    assert x.to(device="cpu").device == x.to("cpu").device == "cpu"


def test_numpy_lines_that_simply_work() -> None:
    x = sm.array([1.0, 2.0, 3.0])
    assert x.copy().tolist() == [1, 2, 3]
    assert sm.std(x, ddof=1).item() == 1
    assert sm.clip(x, a_min=1.5, a_max=2.5).tolist() == [1.5, 2, 2.5]


def test_a_detached_value_is_a_constant() -> None:
    assert sm.grad(lambda x: x * x.detach())(3.0).item() == 3


def test_functional_is_what_pytorch_has_there() -> None:
    x, layer = sm.randn(2, 3), sm.nn.Linear(3, 4)
    assert F.linear(x, layer.weight, layer.bias).tolist() == layer(x).tolist()
    assert F.cross_entropy is sm.nn.losses.cross_entropy
    assert F.relu(x, inplace=True).tolist() == sm.relu(x).tolist()
    assert F.log_softmax(x, dim=-1).shape == (2, 3)
    assert F.dropout(x, 0.5, training=False) is x
    assert set(F.dropout(sm.ones(100), 0.5).tolist()) == {0.0, 2.0}
    assert np.allclose(F.normalize(x, dim=1).square().sum(axis=1).numpy(), 1)


def test_parameters_of_pytorch_are_tensors() -> None:
    class Scale(sm.nn.Module):
        def __init__(self) -> None:
            self.weight = sm.nn.Parameter(sm.ones(3))

    assert [name for name, _ in Scale().named_parameters()] == ["weight"]
    with pytest.raises(ArgumentError, match="register_buffer"):
        sm.nn.Parameter(sm.ones(3), requires_grad=False)


# --- names that do not: what is asked, and what the error says

x, net, optimizer = sm.ones((2, 2)), sm.nn.Linear(2, 2), sm.optim.SGD(lr=0.1)
ASKED: list[tuple[Callable[[], Any], str]] = [
    (lambda: sm.no_grad, "Leave it out: nothing is recorded"),  # type: ignore[attr-defined]
    (lambda: sm.compile(sm.exp), "Write sm.jit(f)"),  # type: ignore[attr-defined]
    (lambda: sm.cuda.is_available, "smelt devices"),  # type: ignore[attr-defined]
    (lambda: sm.logdet(x), "Write sm.linalg.slogdet(x).logabsdet"),  # type: ignore[attr-defined]
    (lambda: sm.cov(x), "np.cov takes tensors, and gives arrays"),  # type: ignore[attr-defined]
    (lambda: sm.Linear(3, 4), "Did you mean sm.nn.Linear?"),  # type: ignore[attr-defined]
    (lambda: sm.DataLoader([]), "Did you mean sm.data.DataLoader?"),  # type: ignore[attr-defined]
    (lambda: sm.normal((2,)), "Did you mean sm.random.normal?"),  # type: ignore[attr-defined]
    (lambda: sm.sofmax(x), "Did you mean softmax?"),  # type: ignore[attr-defined]
    (lambda: sm.logsoftmax(x), "Did you mean log_softmax?"),  # type: ignore[attr-defined]
    (lambda: x.sum().backward, "loss.gradient(x)"),  # type: ignore[attr-defined]
    (lambda: x.cuda, "x.to_device"),  # type: ignore[attr-defined]
    (lambda: x.grad, "sm.value_and_grad"),  # type: ignore[attr-defined]
    (lambda: x.requires_grad, "model.freeze()"),  # type: ignore[attr-defined]
    (lambda: setattr(x, "requires_grad", False), "model.freeze()"),
    (lambda: x.add_(1), "Tensors never change: write x = x.add(...)"),  # type: ignore[attr-defined]
    (lambda: x.zero_, "Tensors never change"),  # type: ignore[attr-defined]
    (lambda: x.sofmax, "Did you mean softmax?"),  # type: ignore[attr-defined]
    (lambda: net.cuda, "model = model.to_device"),  # type: ignore[attr-defined]
    (lambda: net.half, "model = model.astype"),  # type: ignore[attr-defined]
    (lambda: net.zero_grad, "Leave it out"),  # type: ignore[attr-defined]
    (lambda: net.wieght, "Did you mean weight?"),  # type: ignore[attr-defined]
    (lambda: optimizer.step, "opt.update(model, grads, state)"),  # type: ignore[attr-defined]
    (lambda: optimizer.zero_grad, "Leave it out"),  # type: ignore[attr-defined]
    (lambda: sm.nn.Conv2D(1, 2, 3), "Did you mean Conv2d?"),  # type: ignore[attr-defined]
    (lambda: sm.nn.init.xavier_uniform_(x), "sm.random.xavier_uniform"),  # type: ignore[attr-defined]
    (lambda: sm.nn.relu(x), "Did you mean sm.relu?"),  # type: ignore[attr-defined]
    (lambda: F.pad(x, (1, 1)), "the first axis first"),  # type: ignore[attr-defined]
    (lambda: sm.nn.losses.mse_los(x, x), "Did you mean mse_loss?"),  # type: ignore[attr-defined]
    (lambda: sm.optim.adam, "Did you mean Adam?"),  # type: ignore[attr-defined]
    (lambda: sm.optim.lr_scheduler, "sm.optim.schedules"),  # type: ignore[attr-defined]
    (lambda: sm.optim.schedules.cosinus, "Did you mean cosine?"),  # type: ignore[attr-defined]
    (lambda: sm.data.DataLoder([]), "Did you mean DataLoader?"),  # type: ignore[attr-defined]
    (lambda: sm.train.Acuracy, "Did you mean Accuracy?"),  # type: ignore[attr-defined]
    (lambda: sm.random.default_rng(0), "sm.random.key(0)"),  # type: ignore[attr-defined]
    (lambda: sm.jacrev(sm.exp), "Write sm.jacobian(f)(x)"),  # type: ignore[attr-defined]
    (lambda: sm.tree_map(sm.exp, x), "Write sm.tree.map(f, tree)"),  # type: ignore[attr-defined]
    (lambda: sm.tree.leaves(x), "Write sm.tree.flatten(tree)[0]"),  # type: ignore[attr-defined]
    (lambda: sm.switch(0, [sm.exp], x), "Write sm.cond(i == 0"),  # type: ignore[attr-defined]
    (lambda: sm.cdist(x, x), "Write sm.norm(x[:, None] - y, axis=-1)"),  # type: ignore[attr-defined]
    (lambda: F.cdist(x, x), "Write sm.norm(x[:, None] - y, axis=-1)"),  # type: ignore[attr-defined]
    (lambda: F.pixel_shuffle(x, 2), "Write sm.nn.PixelShuffle(...)(x)"),  # type: ignore[attr-defined]
    (lambda: sm.dropout(x), "Did you mean sm.nn.functional.dropout?"),  # type: ignore[attr-defined]
    (lambda: sm.gcd(x, x), "np.gcd takes tensors"),  # type: ignore[attr-defined]
    (lambda: sm.hanning(3), "Write sm.asarray(np.hanning(...))"),  # type: ignore[attr-defined]
    (lambda: x.hstack, "Write sm.hstack(x)"),  # type: ignore[attr-defined]
    (lambda: x.cov, "np.cov takes tensors"),  # type: ignore[attr-defined]
    (lambda: x.inverse, "Write sm.linalg.inv(x)"),  # type: ignore[attr-defined]
    (lambda: sm.svd(x), "Did you mean sm.linalg.svd?"),  # type: ignore[attr-defined]
    (lambda: sm.linalg.eig(x), "sm.linalg.eigh(x) for symmetric matrices"),  # type: ignore[attr-defined]
    (lambda: sm.linalg.norm(x), "sm.linalg.vector_norm"),  # type: ignore[attr-defined]
    (lambda: sm.linalg.LinAlgError, "sm.errors.LinearAlgebraError"),  # type: ignore[attr-defined]
    (lambda: net.forward(x), "Write model(x)"),  # type: ignore[attr-defined]
    (lambda: sm.fill_diagonal(x, 1), "x.at[i, i].set(value)"),  # type: ignore[attr-defined]
    (lambda: sm.put_along_axis(x, x, 1, 1), "sm.scatter(x, axis, indices, values)"),  # type: ignore[attr-defined]
    (lambda: sm.hvp(sm.exp), "sm.jvp(sm.grad(f), (x,), (v,))"),  # type: ignore[attr-defined]
    (lambda: sm.debug.detect_anomaly, "with sm.debug.nans()"),  # type: ignore[attr-defined]
    (lambda: sm.optim.global_norm(x), "sm.tree.flatten(grads)"),  # type: ignore[attr-defined]
    (lambda: sm.nn.utils.parameters_to_vector, "p.flatten() for p in"),  # type: ignore[attr-defined]
    (lambda: sm.random.get_state, "Draw with a key"),  # type: ignore[attr-defined]
    (lambda: sm.debug.prnt(x), "Did you mean print?"),  # type: ignore[attr-defined]
    (lambda: x.at[0].subtract(1), "Write x.at[key].add(-values)"),  # type: ignore[attr-defined]
    (lambda: x.at[0].mutiply(1), "Did you mean multiply?"),  # type: ignore[attr-defined]
]


@pytest.mark.parametrize(("ask", "said"), ASKED, ids=range(len(ASKED)))
def test_what_is_missing_is_an_attribute_error_that_says_what_to_write(ask: Callable[[], Any], said: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        ask()
    assert isinstance(caught.value, AttributeError) and isinstance(caught.value, SmeltError)
    assert said in str(caught.value)
    assert "at test_names.py:" in str(caught.value)


def test_asking_whether_a_name_is_there_is_no_error() -> None:
    assert not hasattr(x, "cuda") and not hasattr(sm, "lstsq") and not hasattr(net, "to")
    assert getattr(x, "nothing_like_it", None) is None
    with pytest.raises(AttributeError) as caught:
        x.__cuda_array_interface__  # type: ignore[attr-defined]  # noqa: B018
    assert type(caught.value) is AttributeError  # protocols are asked for often: no search


def test_what_is_told_about_is_not_there() -> None:
    """Otherwise nobody would be told."""
    places = {"Tensor": x, "Module": net, "Updater": optimizer, "Updates": x.at[0]}
    for place, names in NAMES.items():
        target: Any = places.get(place)
        if target is None:
            target = sm
            for part in place.split(".")[1:]:
                target = getattr(target, part)
        found = [name for name in names if hasattr(target, name)]
        assert [name for name in found if not inspect.ismodule(getattr(target, name))] == [], place


def test_names_that_are_told_are_there() -> None:
    told = [text for names in NAMES.values() for text in names.values()]
    for text in (*told, *TOLD.values(), *TWICE.values(), *CALLED.values()):
        for path in re.findall(r"\bsm((?:\.\w+)+)", text):
            value: Any = sm
            for name in path.removeprefix(".").split("."):
                value = getattr(value, name)
        for name in re.findall(r"\bx\.(\w+)", text):
            assert hasattr(x, name), text
        for name in re.findall(r"\bnp\.(\w+)", text):
            assert hasattr(np, name), text


def test_what_is_told_can_be_written() -> None:
    a, b, m = sm.random.normal((4, 3)), sm.random.normal((5, 3)), sm.arange(9).reshape(3, 3)
    assert np.allclose(sm.norm(a[:, None] - b, axis=-1).numpy()[1, 2], np.linalg.norm(a.numpy()[1] - b.numpy()[2]))
    assert m[np.tril_indices(3)].tolist() == [0, 3, 4, 6, 7, 8]
    assert sm.jit(lambda x, i: x[i + sm.arange(2)])(m, sm.asarray(1)).tolist() == [[3, 4, 5], [6, 7, 8]]
    assert sm.jit(lambda x, i: x.at[i + sm.arange(2)].set(0))(m, sm.asarray(1)).tolist()[1:] == [[0, 0, 0]] * 2
    third = sm.jit(lambda i, x: sm.cond(i == 0, sm.exp, lambda x: sm.cond(i == 1, sm.log, sm.square, x), x))
    assert third(2, sm.asarray(3.0)).item() == 9
    y, slope = sm.jvp(sm.square, (sm.asarray(3.0),), (sm.asarray(2.0),))
    assert (y.item(), slope.item()) == (9, 12)
    assert sm.asarray(np.hanning(3)).tolist() == [0, 1, 0]
    assert sm.random.bernoulli(0.5, (7, 2)).sum(axis=0).shape == (2,)


def test_modules_of_smelts_own_are_no_functions() -> None:
    with pytest.raises(ArgumentError, match=r'(?s)smelt.device .* no function.*x.to_device\("cpu"\)'):
        sm.device("cpu")  # type: ignore[attr-defined]
    with pytest.raises(ArgumentError, match=r"sm\.get_default_device"):
        sm.devices()  # type: ignore[operator]
    with pytest.raises(ArgumentError, match=r"Did you mean sm\.embedding\?"):
        sm.nn.embedding(sm.arange(3), sm.ones(3, 2))  # type: ignore[operator]


def test_modules_that_are_not_loaded_yet_can_be_imported() -> None:
    code = "from smelt import nn, formats; from smelt.nn import summary; from smelt.data import sets"
    subprocess.run([sys.executable, "-c", code], check=True)


# --- what is listed


def test_completion_shows_the_public_names_and_nothing_else() -> None:
    assert dir(sm) == sorted(set(sm.__all__))
    assert {"grad", "value_and_grad", "jit", "nn", "Tensor", "softmax", "__version__"} <= set(dir(sm))
    assert [name for name in dir(sm) if not hasattr(sm, name)] == []
    assert "grad" not in dir(x) and "softmax" in dir(x)
    for part in (sm.nn, sm.nn.losses, F, sm.optim, sm.optim.schedules, sm.data, sm.train, sm.random, sm.linalg):
        assert dir(part) == sorted(part.__all__)
        assert [name for name in dir(part) if inspect.ismodule(getattr(part, name))] == [
            name for name in ("functional", "losses", "schedules") if name in part.__all__
        ]


def test_a_fresh_interpreter_lists_the_same() -> None:
    code = "import smelt as sm; print('grad' in dir(sm), 'checkpoint' in dir(sm), 'importlib' in dir(sm))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["True", "True", "False"]


# --- words for arguments


def test_parameters_may_be_given_by_name() -> None:
    image, weight, bias = sm.ones((1, 1, 4, 4)), sm.ones((2, 1, 3, 3)), sm.ones(2)
    assert sm.conv2d(image, weight=weight, bias=bias).shape == (1, 2, 2, 2)
    assert sm.conv2d(x=image, weight=weight, bias=bias, padding=1).shape == (1, 2, 4, 4)
    assert sm.max_pool2d(image, kernel_size=2).shape == (1, 1, 2, 2)
    assert sm.where(condition=True, x=1.0, y=2.0).item() == 1
    assert sm.gather(x, axis=0, index=sm.zeros((1, 2), dtype=sm.int64)).shape == (1, 2)
    assert sm.topk(x, k=1)[0].shape == (2, 1)
    assert sm.one_hot(sm.arange(3), num_classes=4).shape == (3, 4)
    assert sm.random.randint(low=0, high=3, shape=(2,)).shape == (2,)


def test_no_public_function_takes_arguments_by_place_only() -> None:
    modules = (sm, sm.random, sm.nn, sm.nn.losses, F, sm.optim, sm.optim.schedules, sm.data, sm.train, sm.linalg)
    functions = {name: getattr(module, name) for module in modules for name in module.__all__}
    by_place = [
        name
        for name, function in functions.items()
        if inspect.isfunction(function)
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is parameter.POSITIONAL_ONLY
    ]
    assert by_place == ["jit", "rule"]  # `sm.jit(donate=(0,))` without a function is a decorator


def test_other_libraries_words_for_arguments_are_understood() -> None:
    assert sm.softmax(input=x, dim=-1).tolist() == sm.softmax(x, axis=-1).tolist()
    assert sm.add(x, other=x).tolist() == (x + x).tolist()
    assert sm.concatenate(arrays=[x, x], axis=0).shape == sm.cat(tensors=[x, x]).shape == (4, 2)
    assert sm.zeros(size=(2, 3)).shape == sm.random.normal(size=(2, 3)).shape == (2, 3)
    assert sm.random.normal((3,), loc=5.0, scale=0.0).tolist() == [5, 5, 5]
    assert sm.data.DataLoader(range(10), batch_size=5, num_workers=0, pin_memory=True).batch == 5
    assert sm.optim.Adam(learning_rate=0.5).lr == 0.5
    assert sm.nn.Dropout(rate=0.25).p == 0.25
    assert sm.jit(lambda x, n: x * n, static_argnums=1)(x, 3).tolist() == (x * 3).tolist()
    assert sm.vmap(lambda row: row.sum(), in_dims=1)(x).shape == (2,)


WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: sm.std(x, unbiased=False), "std: there is no argument 'unbiased'.*correction=0"),  # type: ignore[call-arg]
    (lambda: sm.add(x, x, out=x), "add: there is no argument 'out'.*never change"),  # type: ignore[call-arg]
    (lambda: sm.sum(x, keepdimss=True), "Did you mean keepdims?"),  # type: ignore[call-overload]
    (lambda: sm.nn.Conv2d(1, 2, kernal_size=3), "Conv2d: .*Did you mean kernel_size?"),  # type: ignore[call-arg]
    (lambda: sm.exp(x, factor=3), "exp: there is no argument 'factor'.*It takes: x"),  # type: ignore[call-arg]
    (lambda: sm.optim.Adam(net.parameters(), lr=0.1), "Adam: lr is given .*opt.init"),  # type: ignore[misc]
    (lambda: sm.optim.Adam(net.parameters()), "Adam: lr is .*opt.init"),  # type: ignore[arg-type]
    (lambda: sm.optim.Adam(params=net.parameters()), "Adam: .*opt.init"),  # type: ignore[call-arg]
    (lambda: sm.data.DataLoader(x, x, batch=2), r"DataLoader\(\(x, y\), batch=32\)"),  # type: ignore[misc]
    (lambda: sm.data.DataLoader([1], sampler=None), "DataLoader: .*shuffle=True"),  # type: ignore[call-overload]
    (lambda: sm.matmul(x), "matmul: y is missing.*It takes: x, y"),  # type: ignore[call-arg]
    (lambda: sm.softmax(dim=0), "softmax: x is missing"),  # type: ignore[call-arg]
    (lambda: sm.nn.Conv2d(3), "Conv2d: out_channels and kernel_size are missing"),  # type: ignore[call-arg]
    (lambda: sm.nn.ReLU(1, 2, 3), "ReLU: too many arguments by place: 3"),  # type: ignore[call-arg]
    (lambda: sm.train.Accuracy(10), "Accuracy: too many arguments by place: 1"),  # type: ignore[call-arg]
    (lambda: sm.zeros_like(x, sm.int8), "by name: dtype="),  # type: ignore[misc]
    (lambda: sm.zeros((2, 3), sm.int8), "Write dtype=sm.int8"),  # type: ignore[arg-type]
    (lambda: sm.ones(2, 3, np.int8), "Write dtype=sm.int8"),  # type: ignore[arg-type]
    (lambda: sm.arange(3, "float64"), "Write dtype=sm.float64"),  # type: ignore[arg-type]
    (lambda: sm.random.normal((2, 3), sm.float64), "Write dtype=sm.float64"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("call", "said"), WRONG, ids=range(len(WRONG)))
def test_words_that_a_function_does_not_have(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(ArgumentError, match=f"(?s){said}") as caught:
        call()
    assert isinstance(caught.value, TypeError)
    assert "at test_names.py:" in str(caught.value)


def _two(x: sm.Tensor, y: sm.Tensor) -> sm.Tensor:
    return (x * y).sum()


def test_errors_inside_a_function_stay_as_they_are() -> None:
    def body(carry: Any, x: Any) -> Any:
        return sm.exp(**{"nonsense": 1})

    with pytest.raises(TypeError, match="exp: there is no argument 'nonsense'"):
        sm.scan(body, x, x)
    with pytest.raises(TypeError, match=r"two\(\) missing 1 required positional argument: 'y'"):
        sm.grad(_two)(x)


def test_words_lead_to_arguments_that_some_function_has() -> None:
    modules = (sm, sm.random, sm.nn, sm.nn.losses, sm.optim, sm.data)
    callables = [getattr(module, name) for module in modules for name in module.__all__]
    own = {p for f in callables if callable(f) for p in inspect.signature(f).parameters}
    assert {word: meant for word, meant in WORDS.items() if own.isdisjoint(meant)} == {}


def test_sizes_parts_and_methods_that_are_given_otherwise() -> None:
    with pytest.raises(sm.errors.ArgumentError, match="static argument"):
        sm.jit(lambda n: sm.arange(n) + 1)(5)
    with pytest.raises(sm.errors.ArgumentError, match=r"Write Sequential\(\*parts\)"):
        sm.nn.Sequential([sm.nn.Linear(3, 3)])
    with pytest.raises(AttributeError, match=r"sm\.where\(condition, x, other\)"):
        sm.ones(3).where  # noqa: B018
