"""Layers by themselves: types and batches, random draws, running statistics, pictures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.graph.node import topological
from tests.interpreted import interpreted, settled
from tests.turns import one_in

nn = sm.nn

# One layer of each kind, and the shape of an example, without a batch.
LAYERS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "Linear": (lambda: nn.Linear(5, 3), (5,)),
    "Identity": (nn.Identity, (5,)),
    "Conv1d": (lambda: nn.Conv1d(2, 4, 3, stride=2, padding=1), (2, 7)),
    "Conv2d": (lambda: nn.Conv2d(2, 4, 3, groups=2, padding=2, padding_mode="reflect"), (2, 5, 6)),
    "ConvTranspose1d": (lambda: nn.ConvTranspose1d(2, 4, 3, stride=2), (2, 5)),
    "Upsample": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), (2, 3, 3)),
    "PixelShuffle": (lambda: nn.PixelShuffle(2), (4, 3, 3)),
    "PixelUnshuffle": (lambda: nn.PixelUnshuffle(2), (2, 4, 6)),
    "ChannelShuffle": (lambda: nn.ChannelShuffle(2), (4, 3)),
    "Unfold": (lambda: nn.Unfold(2), (2, 3, 3)),
    "Fold": (lambda: nn.Fold(3, 2), (8, 4)),
    "ConstantPad1d": (lambda: nn.ConstantPad1d((1, 2), 0.5), (2, 4)),
    "ReflectionPad2d": (lambda: nn.ReflectionPad2d(1), (2, 4, 4)),
    "ReplicationPad1d": (lambda: nn.ReplicationPad1d(2), (2, 4)),
    "CircularPad1d": (lambda: nn.CircularPad1d(2), (2, 4)),
    "MaxPool2d": (lambda: nn.MaxPool2d(2, stride=1, padding=1), (2, 4, 4)),
    "AvgPool1d": (lambda: nn.AvgPool1d(3, padding=1, count_include_pad=False), (2, 7)),
    "LPPool1d": (lambda: nn.LPPool1d(2, 2), (2, 6)),
    "AdaptiveAvgPool2d": (lambda: nn.AdaptiveAvgPool2d((2, None)), (2, 5, 3)),
    "AdaptiveMaxPool1d": (lambda: nn.AdaptiveMaxPool1d(2), (2, 5)),
    "Dropout": (nn.Dropout, (5,)),
    "AlphaDropout": (nn.AlphaDropout, (5,)),
    "LayerNorm": (lambda: nn.LayerNorm((2, 3)), (2, 3)),
    "RMSNorm": (lambda: nn.RMSNorm(3), (2, 3)),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), (4, 3)),
    "LocalResponseNorm": (lambda: nn.LocalResponseNorm(3), (4, 3)),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(3), (3, 2, 2)),
    "InstanceNorm1d": (lambda: nn.InstanceNorm1d(2, affine=True), (2, 5)),
    "PReLU": (lambda: nn.PReLU(2), (2, 3)),
    "RReLU": (nn.RReLU, (5,)),
    "GELU": (lambda: nn.GELU("tanh"), (5,)),
    "Softplus": (lambda: nn.Softplus(2.0), (5,)),
    "Softshrink": (nn.Softshrink, (5,)),
    "Hardshrink": (nn.Hardshrink, (5,)),
    "Threshold": (lambda: nn.Threshold(0.1, 0.2), (5,)),
    "Softmax": (lambda: nn.Softmax(-1), (5,)),
    "GLU": (nn.GLU, (6,)),
}


def numbers(*shape: int, dtype: Any = sm.float32, seed: int = 0) -> sm.Tensor:
    return sm.asarray(np.random.default_rng(seed).standard_normal(shape)).astype(dtype)


@pytest.mark.parametrize("dtype", [sm.float16, sm.bfloat16, sm.float32, sm.float64], ids=str)
@pytest.mark.parametrize("name", LAYERS)
def test_the_type_stays(name: str, dtype: sm.DType) -> None:
    make, shape = LAYERS[name]
    module = make().astype(dtype)
    assert module(numbers(4, *shape, dtype=dtype)).dtype is dtype
    assert module.eval()(numbers(4, *shape, dtype=dtype)).dtype is dtype


@pytest.mark.parametrize("name", ["LayerNorm", "RMSNorm", "GroupNorm", "BatchNorm2d", "InstanceNorm1d"])
def test_norms_of_narrow_numbers_with_wide_weights_stay_narrow(name: str) -> None:
    make, shape = LAYERS[name]
    module = make()
    assert module(numbers(4, *shape, dtype=sm.bfloat16)).dtype is sm.bfloat16
    assert all(tensor.dtype is sm.float32 for tensor in module.state_dict().values() if tensor.dtype.is_float)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.by_turns(4)
def test_a_batch_by_vmap_is_a_batch(name: str) -> None:
    make, shape = LAYERS[name]
    module, x = settled(make()).eval(), numbers(3, 2, *shape)
    each = sm.vmap(lambda m, x: m(x), in_axes=(None, 0))(module, x)
    expected = np.stack(interpreted([module(x[k]) for k in range(3)]))
    np.testing.assert_allclose(each.numpy(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", [name for name in LAYERS if name != "Identity"])
@pytest.mark.by_turns(6)
def test_a_layer_leaves_the_batch_apart(name: str) -> None:
    """Row by row the same as together, and NumPy arrays do as well."""
    make, shape = LAYERS[name]
    module, x = settled(make()).eval(), numbers(3, *shape)
    together, (one,) = module(x.numpy()).numpy(), interpreted(module(x[1:2]))
    np.testing.assert_allclose(together[1:2], one, rtol=1e-5, atol=1e-6)


# --- random draws


@pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
def test_dropout_drops_its_share_and_scales_the_rest(p: float) -> None:
    sm.random.seed(0)
    y = nn.Dropout(p)(sm.ones(200, 100)).numpy()
    assert (y == 0).mean() == pytest.approx(p, abs=0.01)
    assert np.unique(y) == pytest.approx([0.0, 1 / (1 - p)])
    assert y.mean() == pytest.approx(1.0, abs=0.03)


def test_dropout_of_nothing_and_of_everything() -> None:
    x = numbers(4, 3)
    assert nn.Dropout(0.0)(x) is x
    for kind in (nn.Dropout, nn.AlphaDropout):
        assert (kind(1.0)(x).numpy() == 0).all()
        assert kind(0.5).eval()(x) is x


@pytest.mark.parametrize("k", [1, 2, 3])
def test_channels_go_together(k: int) -> None:
    kind = (nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)[k - 1]
    for batch in ((), (8,)):
        y = kind(0.5)(sm.ones(*batch, 100, *(2,) * k)).numpy().reshape(*batch, 100, -1)
        assert (y == y[..., :1]).all()
        assert 0.3 < (y == 0).mean() < 0.7


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    x = numbers(300, 300)
    for kind in (nn.AlphaDropout, nn.FeatureAlphaDropout):
        y = kind(0.3)(x).numpy()
        assert y.mean() == pytest.approx(0, abs=0.02)
        assert y.std() == pytest.approx(1, abs=0.02)
    y = nn.FeatureAlphaDropout(0.5)(sm.ones(4, 50, 3)).numpy()
    assert (y == y[..., :1]).all() and len(np.unique(y)) == 2


def test_random_slopes() -> None:
    y = nn.RReLU(0.2, 0.4)(-sm.ones(1000)).numpy()
    assert -0.4 <= y.min() < -0.38 and -0.22 < y.max() <= -0.2
    assert nn.RReLU(0.2, 0.4)(sm.ones(3)).tolist() == [1.0] * 3


@pytest.mark.parametrize("make", [nn.Dropout, nn.AlphaDropout, nn.RReLU], ids=lambda kind: kind.__name__)
def test_compiled_calls_draw_anew_and_like_plain_ones(make: Any) -> None:
    module, x = make(), -sm.ones(64)
    sm.random.seed(7)
    plain = [module(x).numpy() for _ in range(3)]
    run = sm.jit(module)
    sm.random.seed(7)
    compiled = [run(x).numpy() for _ in range(3)]
    np.testing.assert_allclose(compiled, plain, rtol=1e-6)
    assert not np.array_equal(plain[0], plain[1]) and not np.array_equal(plain[1], plain[2])


def test_a_key_decides() -> None:
    module, x, key = nn.Dropout(), sm.ones(64), sm.random.key(3)
    assert module(x, key=key).tolist() == module(x, key=key).tolist()
    assert module(x, key=key).tolist() != module(x, key=sm.random.key(4)).tolist()
    drawn = sm.jit(lambda x, key: module(x, key=key))
    assert drawn(x, key).tolist() == module(x, key=key).tolist()

    def body(key: sm.Tensor, _: Any) -> Any:
        key, now = sm.random.split(key)
        return key, module(x, key=now)

    _, rows = sm.scan(body, key, length=3)
    assert len({tuple(row) for row in rows.tolist()}) == 3


@pytest.mark.parametrize("keep", ["nothing", "products"])
@pytest.mark.parametrize("outer", [lambda f: f, sm.jit], ids=["plain", "jit"])
@pytest.mark.by_turns(4)
def test_checkpoint_computes_the_same_mask_again(outer: Any, keep: str) -> None:
    module = settled(nn.Sequential(nn.Linear(8, 64), nn.Dropout(), nn.Tanh(), nn.Dropout(), nn.Linear(64, 4)))
    x = numbers(5, 8)

    def loss(module: Any) -> sm.Tensor:
        return module(x).square().sum()

    again = sm.checkpoint(lambda m, x: m(x), keep=keep)
    sm.random.seed(1)
    expected, plain = outer(sm.value_and_grad(loss))(module)
    sm.random.seed(1)
    got, cheap = outer(sm.value_and_grad(lambda m: again(m, x).square().sum()))(module)
    np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-5)
    for name, tensor in plain.named_parameters():
        np.testing.assert_allclose(dict(cheap.named_parameters())[name].numpy(), tensor.numpy(), rtol=1e-4, atol=1e-4)


def test_gradients_see_the_mask_of_the_value() -> None:
    module, x = nn.Dropout(), sm.ones(64)
    value, slope = sm.vjp(module, x)
    assert slope(sm.ones(64))[0].tolist() == value.tolist()


# --- running statistics


def test_batch_norm_remembers_unbiased_statistics() -> None:
    norm, x = nn.BatchNorm1d(3, momentum=1.0), numbers(10, 3)
    y = norm(x).numpy()
    np.testing.assert_allclose(y.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(y.std(0), 1, rtol=1e-4)
    np.testing.assert_allclose(norm.running_mean.numpy(), x.numpy().mean(0), rtol=1e-5)  # type: ignore[union-attr]
    np.testing.assert_allclose(norm.running_var.numpy(), x.numpy().var(0, ddof=1), rtol=1e-5)  # type: ignore[union-attr]
    assert [name for name, _ in norm.named_buffers()] == ["running_mean", "running_var", "num_batches_tracked"]
    assert [name for name, _ in norm.named_parameters()] == ["weight", "bias"]
    norm.reset_running_stats()
    assert norm.running_mean.tolist() == [0.0] * 3  # type: ignore[union-attr]


@pytest.mark.parametrize("name", [name for name in LAYERS if "Norm" in name or "Dropout" in name])
def test_integers_become_floats(name: str) -> None:
    make, shape = LAYERS[name]
    assert make()(sm.ones(4, *shape, dtype=sm.int64)).dtype is sm.float32


@pytest.mark.parametrize("name", LAYERS)
def test_empty_batches(name: str) -> None:
    make, shape = LAYERS[name]
    for module in (make(), make().eval()):
        assert module(sm.zeros(0, *shape)).numpy().shape[0] == 0
        assert all(np.isfinite(tensor.numpy()).all() for tensor in module.state_dict().values())


@pytest.mark.parametrize("name", [name for name in LAYERS if "Norm" in name])
def test_narrow_numbers_are_rounded_once(name: str) -> None:
    make, shape = LAYERS[name]
    module, x = make(), numbers(4, *shape, dtype=sm.bfloat16)
    narrow, wide = module.astype(sm.bfloat16)(x), module(x.astype(sm.float32))
    assert narrow.astype(sm.float32).tolist() == wide.astype(sm.bfloat16).astype(sm.float32).tolist()


def trained(wrap: Any, steps: int = 3) -> tuple[Any, list[float]]:
    """A small network after some steps, and the losses."""
    sm.random.seed(0)
    model: Any = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8, momentum=None), nn.ReLU(), nn.Linear(8, 1))
    optimizer = sm.optim.SGD(lr=0.05)
    state = optimizer.init(model)

    def step(model: Any, state: Any, x: sm.Tensor) -> Any:
        loss, slopes = sm.value_and_grad(lambda m: m(x).square().mean())(model)
        model, state = optimizer.update(model, slopes, state)
        return model, state, loss

    run, losses = wrap(step), []
    for k in range(steps):
        model, state, loss = run(model, state, numbers(16, 4, seed=k))
        losses.append(loss.item())
    return model, losses


def test_statistics_are_the_same_with_and_without_jit() -> None:
    plain, losses = trained(lambda step: step)
    compiled, others = trained(sm.jit)
    np.testing.assert_allclose(losses, others, rtol=1e-5)
    for (name, one), (_, other) in zip(plain.named_buffers(), compiled.named_buffers(), strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5, atol=1e-6, err_msg=name)
    assert plain[1].num_batches_tracked.item() == 3


def test_a_step_compiles_once() -> None:
    traces: list[int] = []

    def counted(step: Any) -> Any:
        def run(*args: Any) -> Any:
            traces.append(1)
            return step(*args)

        return sm.jit(run)

    trained(counted, steps=4)
    assert len(traces) == 1


def test_statistics_are_constants_of_later_gradients() -> None:
    """What is differentiated in evaluation does not reach back into the batches of training."""
    norm, w = nn.BatchNorm1d(1), sm.asarray([2.0])
    x = sm.asarray([[1.0], [2.0], [4.0]])
    norm(x * w)
    norm.eval()
    slope = norm(x * w).sum().gradient(w)
    expected = x.sum() / (norm.running_var + norm.eps).sqrt()  # type: ignore[operator,union-attr]
    np.testing.assert_allclose(np.asarray(slope).reshape(-1), expected.numpy().reshape(-1), rtol=1e-5)


def test_symbolic_batches() -> None:
    n = sm.Dim("n", 2, 64)
    for name in one_in(2, ("BatchNorm2d", "GroupNorm", "Dropout", "Conv2d", "MaxPool2d")):
        make, shape = LAYERS[name]
        module = settled(make()).train(name == "BatchNorm2d")
        run = sm.jit(lambda x, module=module: module(x) * 1, shapes=[(n, *shape)])
        for size in (3, 7):
            x = numbers(size, *shape)
            np.testing.assert_allclose(run(x).numpy(), *interpreted(module(x)), rtol=1e-4, atol=1e-5, err_msg=name)


# --- tables


def test_the_row_of_padding() -> None:
    table = nn.Embedding(5, 2, padding_idx=1)
    assert table.weight[1].tolist() == [0.0, 0.0]
    table.weight = sm.ones(5, 2)
    numbers = sm.asarray([1, -4, 3, 4])
    slope = sm.grad(lambda m: m(numbers).sum())(table)
    assert slope.weight.tolist() == [[0.0] * 2, [0.0] * 2, [0.0] * 2, [1.0] * 2, [1.0] * 2]
    assert table(numbers).tolist() == [[1.0, 1.0]] * 4


def test_tables_that_are_given() -> None:
    table = sm.ones(3, 2)
    module = nn.Embedding.from_pretrained(table)
    assert module.weight is table and module.frozen
    assert not nn.Embedding.from_pretrained(table, freeze=False).frozen


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_empty_bags_give_zeros(mode: str) -> None:
    bag = nn.EmbeddingBag(5, 2, mode=mode)
    rows = bag.weight.numpy()
    y = bag(sm.asarray([1, 2, 4]), sm.asarray([0, 2, 2])).numpy()
    fold = {"sum": np.sum, "mean": np.mean, "max": np.max}[mode]
    np.testing.assert_allclose(y, [fold(rows[[1, 2]], 0), [0, 0], rows[4]], rtol=1e-6)  # type: ignore[operator]
    assert bag(sm.zeros(3, 0, dtype=sm.int64)).tolist() == [[0.0, 0.0]] * 3


# --- pictures


def test_pictures() -> None:
    assert repr(nn.ReLU(inplace=True)) == "ReLU()"
    assert repr(nn.ELU(0.5, inplace=True)) == "ELU(alpha=0.5)"
    assert repr(nn.Threshold(0.5, 1.0)) == "Threshold(threshold=0.5, value=1.0)"
    assert repr(nn.Softmax(dim=1)) == "Softmax(dim=1)"
    assert repr(nn.Dropout2d(0.2)) == "Dropout2d(p=0.2)"
    assert repr(nn.Conv1d(2, 4, 3, padding="same")) == (
        "Conv1d(in_channels=2, out_channels=4, kernel_size=(3,), stride=(1,), dilation=(1,), groups=1, padding='same', "
        "padding_mode='zeros')"
    )


def test_every_layer_says_what_it_is() -> None:
    for name in nn.__all__:
        kind = getattr(nn, name)
        if isinstance(kind, type):
            assert kind.__name__ == name
            assert vars(kind)["__doc__"], name


def test_statistics_do_not_keep_the_batches_of_calls_before() -> None:
    norm = sm.nn.BatchNorm1d(3)
    lengths = []
    for _ in range(6):
        norm(sm.random.normal((4, 3)))
        lengths.append(len(topological([norm.running_mean._node, norm.num_batches_tracked._node])))
    assert lengths[-1] == lengths[2]
