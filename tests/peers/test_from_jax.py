"""Functions written with JAX, under smelt's jit, grad and vmap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import smelt as sm
from smelt.graph import Op, topological

RNG = np.random.default_rng(3)
W = jnp.asarray(RNG.normal(size=(5, 5)).astype(np.float32))
KEY = jax.random.key(7)


def draw(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


@jax.custom_vjp
def clipped(x: Any) -> Any:
    return x * x


clipped.defvjp(lambda x: (x * x, x), lambda x, ct: (jnp.clip(2 * x * ct, -1, 1),))


@jax.custom_jvp
def safe_root(x: Any) -> Any:
    return jnp.sqrt(jnp.maximum(x, 0))


safe_root.defjvps(lambda t, ans, x: jnp.where(x > 0, t / (2 * jnp.maximum(ans, 1e-3)), 0))


def layer_norm(x: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


def attention(x: Any) -> Any:
    scores = jnp.where(jnp.tril(jnp.ones((4, 4), bool)), x @ x.T / 2, -jnp.inf)
    return jax.nn.softmax(scores, -1) @ x


def recurrent(x: Any) -> Any:
    return jax.lax.scan(lambda h, row: (jnp.tanh(h @ W + row), h * row), jnp.zeros(5), x)


# Of one element: a matrix of four rows and five columns.
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "sine": lambda x: jnp.sin(x) * x**3,
    "closure": lambda x: jnp.tanh(x @ W),
    "softmax": lambda x: jax.nn.softmax(x, -1),
    "log_softmax": lambda x: jax.nn.log_softmax(x, 0),
    "logsumexp": jax.nn.logsumexp,
    "gelu": jax.nn.gelu,
    "relu": jax.nn.relu,
    "silu": jax.nn.silu,
    "softplus": jax.nn.softplus,
    "layer norm": layer_norm,
    "attention": attention,
    "custom_vjp": clipped,
    "custom_jvp": safe_root,
    "scan": recurrent,
    "fori_loop": lambda x: jax.lax.fori_loop(0, 3, lambda i, c: jnp.tanh(c @ W) + i, x),
    "cond": lambda x: jax.lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x),
    "switch": lambda x: jax.lax.switch((jnp.abs(x[0, 0]) * 2).astype(int), [jnp.sin, jnp.cos, jnp.exp], x),
    "checkpoint": jax.checkpoint(lambda x: jnp.sin(jnp.sin(x @ W))),
    "stop_gradient": lambda x: x * jax.lax.stop_gradient(x),
    "sort": lambda x: jnp.sort(x, -1) * jnp.arange(5),
    "top_k": lambda x: jax.lax.top_k(x, 2)[0],
    "maximum": lambda x: x.max(1),
    "cumulative": lambda x: (x.cumsum(0), jnp.cumprod(x, 1)),
    "indexing": lambda x: (x[jnp.array([2, 0, 2])], x.at[1:3, 2].mul(3.0)),
    "convolution": lambda x: jnp.convolve(x[0], x[1], mode="same"),
    "pooling": lambda x: jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (2, 2), (2, 2), "SAME"),
    "einsum": lambda x: jnp.einsum("ij,kj,kl->il", x, x, x),
    "tree": lambda x: {"rows": [x.mean(0), x.std(1)], "norm": (jnp.linalg.norm(x),), "nothing": None},
    "random": lambda x: x * jax.random.normal(KEY, x.shape),
    "linear algebra": lambda x: jnp.linalg.solve(x @ x.T + 4 * jnp.eye(4), x),
    "special": lambda x: jax.scipy.special.erf(x) + jax.scipy.special.gammaln(jnp.abs(x) + 1),
    "gradient": jax.grad(lambda x: (jnp.tanh(x @ W) ** 2).sum()),
}


def loss(function: Callable[[Any], Any], xp: Any) -> Callable[[Any], Any]:
    """A number that depends on all results."""

    def summed(x: Any) -> Any:
        return sum((xp.sin(part) * (k + 1)).sum() for k, part in enumerate(jax.tree.leaves(function(x))))

    return summed


def check(found: Any, wanted: Any, tolerance: float = 1e-5) -> None:
    parts, structure = jax.tree.flatten(wanted)
    given, nested = jax.tree.flatten(found)
    assert nested == structure
    for a, b in zip(given, parts, strict=True):
        assert a.shape == b.shape and str(a.dtype) == str(b.dtype)
        np.testing.assert_allclose(a.numpy(), np.asarray(b), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_under_jit_grad_and_vmap(name: str) -> None:
    function, x, batch = FUNCTIONS[name], draw(4, 5), draw(3, 4, 5)
    imported = sm.from_jax(function)
    check(imported(x), function(jnp.asarray(x)))
    check(sm.jit(imported)(x), function(jnp.asarray(x)))
    check(sm.vmap(imported)(sm.asarray(batch)), jax.vmap(function)(batch), 2e-5)
    slope = jax.grad(loss(function, jnp))
    mine = sm.grad(loss(imported, sm))
    check(sm.jit(mine)(x), slope(x), 5e-5)
    check(sm.jit(sm.vmap(mine))(batch), jax.vmap(slope)(batch), 5e-5)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "custom_vjp"])
def test_forward_derivatives(name: str) -> None:
    function, x, change = FUNCTIONS[name], draw(4, 5), draw(4, 5)
    imported = sm.from_jax(function)
    wanted = jax.jvp(function, (jnp.asarray(x),), (jnp.asarray(change),))
    check(sm.jvp(imported, (x,), (change,)), wanted, 5e-5)
    # Rows that change by themselves, and a gradient through the change.
    batch = draw(3, 4, 5)
    rows = sm.vmap(lambda change: sm.jvp(imported, (x,), (change,))[1])
    check(sm.jit(rows)(batch), jax.vmap(lambda change: jax.jvp(function, (x,), (change,))[1])(batch), 5e-5)
    slope = jax.grad(loss(lambda x: jax.jvp(function, (x,), (jnp.asarray(change),))[1], jnp))
    mine = sm.grad(loss(lambda x: sm.jvp(imported, (x,), (change,))[1], sm))
    check(mine(x), slope(jnp.asarray(x)), 2e-4)


@pytest.mark.parametrize("name", ["sine", "attention", "custom_jvp", "scan", "cond", "linear algebra"])
def test_matrices_of_second_derivatives(name: str) -> None:
    function, x = FUNCTIONS[name], draw(4, 5)
    wanted = jax.hessian(loss(function, jnp))(jnp.asarray(x))
    check(sm.jit(sm.hessian(loss(sm.from_jax(function), sm)))(x), wanted, 1e-3)


def test_only_what_changes_is_pushed_forward() -> None:
    def function(tree: Any, k: Any, y: Any) -> Any:
        return {"product": tree["a"] * tree["b"] + y, "place": k + 1, "picked": tree["a"][k]}

    tree, k, y = {"a": draw(3), "b": draw(3)}, np.int32(2), draw(3)
    imported = sm.from_jax(function)
    change = {"a": draw(3), "b": draw(3)}
    _, found = sm.jvp(lambda tree: imported(tree, k, y), (tree,), (change,))
    _, wanted = jax.jvp(lambda tree: function(tree, jnp.asarray(k), y), (tree,), (change,))
    for name in ("product", "picked"):
        np.testing.assert_allclose(found[name].numpy(), wanted[name], rtol=1e-6)
    assert found["place"].dtype is sm.int32
    _, still = sm.jvp(lambda z: imported(tree, k, y)["product"] + 0 * z, (y,), (y,))
    assert still.tolist() == [0, 0, 0]


def test_only_what_is_wanted_is_pulled_back() -> None:
    """By the first argument there is no gradient: JAX knows no way back through such a loop."""

    def function(x: Any, y: Any) -> Any:
        return jax.lax.while_loop(lambda v: v.sum() < 100, lambda v: v * 2, x).sum() * (y * y).sum()

    x, y, imported = abs(draw(3)), draw(3), sm.from_jax(function)
    wanted = jax.grad(function, 1)(jnp.asarray(x), jnp.asarray(y))
    check(sm.grad(imported, argnums=1)(x, y), wanted, 1e-5)
    check(sm.jit(sm.grad(imported, argnums=1))(x, y), wanted, 1e-5)
    check(sm.vmap(sm.grad(imported, argnums=1), in_axes=(None, 0))(x, y[None])[0], wanted, 1e-5)
    with pytest.raises(ValueError, match="Reverse-mode differentiation does not work"):
        sm.grad(imported)(x, y)


def test_complex_results_change() -> None:
    def turned(x: Any, y: Any) -> Any:
        z = x + 1j * y
        return z * z * (2 - 1j), abs(z)

    x, y, change = draw(3), draw(3), draw(3)
    _, found = sm.jvp(lambda x: sm.from_jax(turned)(x, y), (x,), (change,))
    check(found, jax.jvp(lambda x: turned(x, y), (x,), (change,))[1])


def test_what_has_only_a_way_back_says_so() -> None:
    with pytest.raises(sm.errors.GradientError, match=r"jax.custom_vjp inside[\s\S]*jax.custom_jvp instead"):
        sm.jvp(sm.from_jax(clipped), (draw(3),), (draw(3),))
    x = draw(3) / 10  # where nothing is clipped
    second = sm.jacobian(sm.grad(lambda x: sm.from_jax(clipped)(x).sum()))(x)
    np.testing.assert_allclose(second.numpy(), 2 * np.eye(3), rtol=1e-6)


def test_derivatives_of_higher_order_are_those_of_jax() -> None:
    for function in (FUNCTIONS["sine"], clipped, safe_root):
        x = np.float32(0.3)
        second, third = jax.grad(jax.grad(function)), jax.grad(jax.grad(jax.grad(function)))
        imported = sm.from_jax(function)
        check(sm.grad(sm.grad(imported))(x), second(x))
        check(sm.grad(sm.grad(sm.grad(imported)))(x), third(x))


def test_several_arguments_of_all_kinds() -> None:
    def function(tree: Any, numbers: Any, mode: str, size: int, *, scale: float = 1.0) -> Any:
        scaled = {name: x * scale for name, x in tree.items()}
        return scaled, numbers.reshape(size, -1) if mode == "matrix" else numbers

    tree = {"a": draw(3), "b": sm.asarray(draw(2)), "c": jnp.ones(2, jnp.bfloat16)}
    imported = sm.from_jax(function, static=("size",))
    found = imported(tree, np.arange(6, dtype=np.int32), "matrix", 2, scale=0.5)
    plain = {"a": tree["a"], "b": tree["b"].numpy(), "c": tree["c"]}
    # A Python number is weak: it takes the dtype of what it meets.
    wanted = function(jax.tree.map(jnp.asarray, plain), jnp.arange(6), "matrix", 2, scale=0.5)
    check(found, wanted)
    assert found[0]["c"].dtype is sm.bfloat16
    assert imported(tree, np.arange(6, dtype=np.int32), "row", 2)[1].shape == (6,)
    slopes = sm.grad(lambda tree: imported(tree, sm.arange(6), "row", 2)[0]["a"].sum())(tree)
    assert slopes["a"].tolist() == [1, 1, 1] and slopes["c"].tolist() == [0, 0]


class Pair(NamedTuple):
    first: Any
    second: Any


def test_results_are_nested_as_the_function_gives_them() -> None:
    found = sm.from_jax(lambda pair: Pair(pair.second, [pair.first, None]))(Pair(1, draw(2)))
    assert isinstance(found, Pair) and found.second[1] is None and found.second[0].dtype is sm.int32


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "uint32", "float16", "bfloat16", "float32"])
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (2, 3)])
def test_arrays_of_every_dtype(dtype: str, shape: tuple[int, ...]) -> None:
    x = jnp.asarray(RNG.integers(0, 2, shape)).astype(dtype)
    check(sm.from_jax(lambda x: (x, x.reshape(-1)))(x), (x, x.reshape(-1)))


def test_64_bits_become_32_unless_jax_has_them() -> None:
    x = np.arange(3)
    assert sm.from_jax(lambda x: x * 2)(x).dtype is sm.int32
    imported = sm.from_jax(lambda x: x * 2.5)
    assert imported(x.astype(np.float64)).dtype is sm.float32
    with jax.enable_x64(True):
        assert imported(x.astype(np.float64)).dtype is sm.float64


def test_each_kind_of_arguments_is_traced_once() -> None:
    seen = []

    def function(x: Any) -> Any:
        seen.append(x.shape)
        return x + 1

    imported = sm.from_jax(function, draw(3))
    for shape in [(3,), (3,), (2, 2), (3,), (2, 2)]:
        imported(draw(*shape))
    compiled = sm.jit(lambda x: imported(x).sum())
    for _ in range(2):
        compiled(draw(3))
    assert seen == [(3,), (2, 2)]
    assert repr(imported).endswith("function, traces=2)")


def test_arrays_that_the_function_refers_to_are_not_written_into_its_text() -> None:
    large = jnp.ones((300, 300))
    imported = sm.from_jax(lambda x: x @ large)
    assert imported(np.ones(300, np.float32))[0] == 300
    assert len(imported.lowered(np.ones(300, np.float32)).text) < 5_000
    assert sm.jit(imported)(np.ones(300, np.float32))[0] == 300


@pytest.mark.parametrize("count", [3, 2000])
def test_arrays_of_numpy_that_the_function_refers_to(count: int) -> None:
    own = draw(count)
    imported = sm.from_jax(lambda x: jnp.where(own > 0, x * own, jnp.asarray(own)))
    check(imported(np.float32(2)), np.where(own > 0, 2 * own, own))
    check(sm.jit(sm.grad(lambda x: imported(x).sum()))(sm.asarray(2.0)), own[own > 0].sum(), 1e-4)


@pytest.mark.parametrize("mode", ["fill", "clip", "promise_in_bounds"])
def test_gradients_of_picks_are_comparisons_and_no_scatters(mode: str) -> None:
    x, labels = draw(4, 5), np.array([4, 0, -1, 2 if mode == "promise_in_bounds" else 7])

    def picked(x: Any) -> Any:
        return jnp.take_along_axis(jax.nn.log_softmax(x), labels[:, None], -1, mode=mode).sum()

    slope = sm.from_jax(jax.grad(picked))
    check(slope(x), jax.grad(picked)(x))
    assert not any(node.op is Op.SCATTER for node in topological([slope(x)._node]))


def test_keys() -> None:
    key = jax.random.key(3)
    found = sm.from_jax(lambda key: (jax.random.uniform(key, (3,)), jax.random.split(key)))(key)
    check(found, (jax.random.uniform(key, (3,)), jax.random.key_data(jax.random.split(key))))


def test_keys_under_transforms() -> None:
    def draws(keys: Any, x: Any) -> Any:
        return jax.random.normal(keys["a"], x.shape) * x

    imported = sm.from_jax(draws)
    x = jnp.asarray(draw(5))
    for kind in ("threefry2x32", "rbg"):
        keys = {"a": jax.random.key(3, impl=kind)}
        check(sm.jit(imported)(keys, x), draws(keys, x))
        check(sm.jit(sm.grad(lambda keys, x: imported(keys, x).sum(), argnums=1))(keys, x), draws(keys, x) / x)
        check(sm.jit(lambda x, keys=keys: imported(keys, x))(x), draws(keys, x))
    assert repr(imported).endswith("traces=2)")
    many = {"a": jax.random.split(jax.random.key(7), 4)}
    rows = sm.vmap(imported, in_axes=(0, None))
    check(rows(many, x), jax.vmap(draws, in_axes=(0, None))(many, x))
    check(sm.jit(rows)(many, x), jax.vmap(draws, in_axes=(0, None))(many, x))
    check(sm.jit(sm.from_jax(jax.vmap(draws, in_axes=(0, None))))(many, x), rows(many, x))
    compiled = sm.jit(imported)
    check(compiled({"a": many["a"][0]}, x), draws({"a": many["a"][0]}, x))
    check(compiled({"a": many["a"][1]}, x), draws({"a": many["a"][1]}, x))
    assert repr(compiled).endswith("traces=1)")


def test_keys_that_only_come_and_go() -> None:
    sm.from_jax(jax.random.bits)
    key = sm.jit(lambda key: key)(jax.random.split(jax.random.key(1), 3))
    assert repr(key) == "Key(key<fry>(3,))"
    drawn = sm.from_jax(jax.vmap(jax.random.bits))
    check(drawn(key), jax.vmap(jax.random.bits)(jax.random.split(jax.random.key(1), 3)))


OPEN = ["closure", "softmax", "logsumexp", "layer norm", "custom_vjp", "scan", "cond", "sort", "cumulative", "tree"]


@pytest.mark.parametrize("name", OPEN)
def test_one_trace_and_compilation_for_all_sizes_of_a_dim(name: str) -> None:
    function = FUNCTIONS[name]
    imported = sm.from_jax(function)
    shapes = [(sm.Dim("n", 1, 64), 5)]
    compiled, slope = sm.jit(imported, shapes=shapes), sm.jit(sm.grad(loss(imported, sm)), shapes=shapes)
    for rows in (4, 1, 7):
        x = draw(rows, 5)
        check(compiled(x), function(jnp.asarray(x)), 2e-5)
        check(slope(x), jax.grad(loss(function, jnp))(jnp.asarray(x)), 2e-4)
    assert repr(imported).endswith("traces=1)")


def test_several_dims_that_may_be_zero_and_sizes_made_of_them() -> None:
    def function(x: Any, y: Any, z: Any) -> Any:
        n, m = x.shape[0], y.shape[0]
        return jnp.concatenate([x, y * 2]), z.reshape(2, n + m), jnp.arange(n), x.sum() / (m + 1), jnp.zeros(n // 2)

    n, m = sm.Dim("n", 0, 16), sm.Dim("a size", 2, 16)
    compiled = sm.jit(sm.from_jax(function), shapes=[(n,), (m,), (2 * n + 2 * m,)])
    for a, b in [(0, 2), (1, 3), (5, 2), (16, 16)]:
        x, y, z = draw(a), draw(b), draw(2 * (a + b))
        check(compiled(x, y, z), function(*map(jnp.asarray, (x, y, z))))
    with pytest.raises(sm.errors.SmeltError):
        compiled(draw(3), draw(1), draw(8))


def test_forward_derivatives_and_batches_over_a_dim() -> None:
    imported = sm.from_jax(lambda x: jnp.tanh(x) * x.sum())
    change = sm.jit(lambda x, t: sm.jvp(imported, (x,), (t,))[1], shapes=[(n := sm.Dim("n", 1, 9),), (n,)])
    batched = sm.jit(sm.vmap(imported), shapes=[(sm.Dim("rows", 1, 9), n)])
    for size in (1, 4):
        x, t = draw(size), draw(size)
        check(change(x, t), jax.jvp(imported.function, (x,), (t,))[1])
        rows = draw(size + 1, size)
        check(batched(rows), jax.vmap(imported.function)(rows))


def test_what_jax_cannot_decide_about_a_dim() -> None:
    shapes = [(sm.Dim("n", 1, 9),)]
    for function, reason in (
        (lambda x: x + jnp.ones(3), "incompatible shapes"),
        (lambda x: x if x.shape[0] > 4 else -x, "inconclusive"),
        (lambda x: jnp.zeros(int(x.shape[0])), "constant"),
    ):
        with pytest.raises(sm.errors.TraceError, match=rf"JAX cannot trace <lambda>.*{reason}[\s\S]*sm.jit without"):
            sm.jit(sm.from_jax(function), shapes=shapes)(draw(3))
    bounded = sm.jit(sm.from_jax(lambda x: x if x.shape[0] > 4 else -x), shapes=[(sm.Dim("n", 5, 9),)])
    assert (bounded(np.ones(6, np.float32)).numpy() == 1).all()


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x[::-1], r"""'n' >= '1' is inconclusive[\s\S]*lower bound of 1, as Dim\("n", 1, …\)"""),
        (lambda x: x if x.shape[0] > 4 else -x, r"'n' > '4'[\s\S]*Give the Dim bounds that decide it"),
        (lambda x: x if 2 * x.shape[0] > 4 else -x, r"2\*\(n \+ 1\) - 2' > '4'"),
    ],
)
def test_errors_about_sizes_that_may_be_zero_name_the_dim(function: Any, message: str) -> None:
    """JAX's symbols, which are at least 1, stand for 1 more."""
    shapes = [(sm.Dim("n", 0, 16),)]
    with pytest.raises(sm.errors.TraceError, match=message):
        sm.jit(sm.from_jax(function), shapes=shapes)(sm.ones(5))


def test_as_a_decorator() -> None:
    @sm.from_jax(static="times")
    def repeated(x: Any, times: int) -> Any:
        return jnp.tile(x, times)

    @sm.from_jax
    def doubled(x: Any) -> Any:
        return 2 * x

    x = draw(3)
    check(repeated(x, 2), np.tile(x, 2))
    check(repeated(x, times=3), np.tile(x, 3))
    check(doubled(x), 2 * x)
    with pytest.raises(sm.errors.ArgumentError, match=r"no static_argnums=[\s\S]*Write static=1"):
        sm.from_jax(static_argnums=1)(lambda x, n: x)
    with pytest.raises(sm.errors.ArgumentError, match="None is not a function"):
        sm.from_jax(None, x)


def test_mistakes() -> None:
    with pytest.raises(sm.errors.ArgumentError, match="3 is not a function"):
        sm.from_jax(3)  # type: ignore[arg-type]
    with pytest.raises(sm.errors.ArgumentError, match="no argument 'n'"):
        sm.from_jax(lambda x: x, static="n")
    with pytest.raises(sm.errors.ArgumentError, match="neither an array nor hashable"):
        sm.from_jax(lambda x: x)(bytearray(3))
    with pytest.raises(TypeError, match="add got incompatible shapes"):
        sm.from_jax(lambda x: x + jnp.ones(7))(draw(3))


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("jax.debug.print", lambda x: jax.debug.print("{}", x)),
        ("jax.debug.callback", lambda x: jax.debug.callback(print, x)),
        ("jax.pure_callback", lambda x: jax.pure_callback(np.sin, x, x)),
        ("jax.experimental.io_callback", lambda x: jax.experimental.io_callback(np.sin, x, x)),
    ],
)
def test_calls_of_python_are_refused_by_what_the_user_wrote(name: str, call: Any) -> None:
    def inside(x: Any) -> Any:
        def step(state: Any, _: Any) -> Any:
            call(state)
            return jax.lax.cond(state.sum() > 0, jnp.sin, jnp.cos, state), None

        return jax.lax.scan(step, x, None, length=2)[0]

    for function in (call, jax.jit(inside)):
        with pytest.raises(sm.errors.UnsupportedOp, match=f"the function calls {name}[\\s\\S]*Python is not called"):
            sm.from_jax(function)(draw(3))


def test_arrays_that_were_given_up() -> None:
    given, kept = jnp.ones(3), jnp.ones(3)
    given.delete()
    with pytest.raises(sm.errors.ArgumentError, match=r"given up[\s\S]*jnp.copy"):
        sm.from_jax(lambda x: x + 1)(given)
    # What is donated inside is one program with what is around it.
    assert sm.from_jax(jax.jit(lambda x: x + 1, donate_argnums=0))(kept).tolist() == [2, 2, 2] == (kept + 1).tolist()


@pytest.mark.parametrize("dtype", ["int4", "uint4", "float8_e4m3fn", "float8_e5m2"])
def test_types_that_only_store_are_moved_and_cast(dtype: str) -> None:
    x = jnp.asarray([1, 3, 5]).astype(dtype)
    found = sm.from_jax(lambda x: (x[::-1].astype(jnp.float32) * 2, x))(x)
    assert found[0].tolist() == [10, 6, 2] and found[1].dtype.name == dtype
    with pytest.raises(sm.errors.DTypeError, match=r"only stores values[\s\S]*Cast first"):
        sm.from_jax(lambda x: x + x)(x)


def test_branches_are_opened_in_traces_after_they_were_computed() -> None:
    """Constants of a closed body that was made before must be no tensors from outside of the trace that opens it."""
    f = sm.from_jax(lambda x: jax.lax.cond(x.sum() > 0, x.sum, lambda: jnp.sin(x).sum()))
    x = np.array([[1, 2], [-1, -2]], np.float32)
    sm.grad(f)(x[0])
    wanted = np.stack([np.ones(2), np.cos(x[1])])
    np.testing.assert_allclose(sm.jit(sm.vmap(sm.grad(f)))(x).numpy(), wanted, rtol=1e-6)
    summed = sm.jit(sm.grad(lambda x: sm.vmap(f)(x).sum()))
    np.testing.assert_allclose(summed(sm.asarray(x)).numpy(), wanted, rtol=1e-6)


@pytest.mark.parametrize(
    "call",
    [
        sm.jit(jnp.sin),
        sm.jit(jax.jit(jnp.sin)),
        sm.jit(jnp.asarray),
        sm.jit(lambda x: jnp.ones(3) * x),
        sm.grad(lambda x: jnp.sin(x).sum()),
        sm.grad(lambda x: sm.asarray(jnp.asarray(x)).sum()),  # its gradient was zeros
        sm.vmap(jnp.sin),
        lambda x: sm.to_jax(jnp.sin)(jnp.ones(3)),
    ],
)
def test_functions_of_jax_that_are_not_wrapped(call: Any) -> None:
    with pytest.raises(sm.errors.ExchangeError, match=r"cannot take a tensor that is traced[\s\S]*sm\.from_jax\("):
        call(sm.ones(3))


def test_tensors_that_have_values_are_arrays_of_jax() -> None:
    np.testing.assert_array_equal(jnp.asarray(sm.ones(3) + 1), jnp.full(3, 2.0))
    np.testing.assert_array_equal(jnp.ones(3) + sm.ones(3), jnp.full(3, 2.0))


def test_functions_of_tensors_that_are_wrapped_as_those_of_jax() -> None:
    for function in (sm.sin, sm.nn.Linear(4, 2)):
        with pytest.raises(sm.errors.TraceError, match=r"cannot take what JAX traces[\s\S]*sm\.to_jax\(function\)"):
            sm.from_jax(function)(sm.ones((3, 4)))


@pytest.mark.parametrize("static", [5, -1, (0, 1)])
def test_static_arguments_that_there_are_not(static: Any) -> None:
    for door in (sm.from_jax, sm.to_jax):
        with pytest.raises(sm.errors.ArgumentError, match=r"no argument -?\d[\s\S]*It has n, counted from 0"):
            door(lambda n: n, static=static)
    assert sm.from_jax(lambda *sizes: jnp.zeros(sizes[1]), static=1)(3.0, 2).shape == (2,)


def test_second_derivatives_of_rules_that_are_none_of_what_fwd_computes() -> None:
    @jax.custom_vjp
    def rounded(x: Any) -> Any:
        return jnp.round(x)

    rounded.defvjp(lambda x: (jnp.round(x), None), lambda _, ct: (ct,))
    outside = sm.from_jax(rounded)
    assert jax.grad(jax.grad(lambda x: rounded(x) ** 3))(2.3) == 0
    assert sm.grad(sm.grad(lambda x: outside(x) ** 3))(2.3).item() == 12  # the rule again: 6 * round(x)
    assert sm.grad(sm.grad(sm.from_jax(lambda x: rounded(x) ** 3)))(2.3).item() == 0
    assert sm.grad(sm.from_jax(jax.grad(lambda x: rounded(x) ** 3)))(2.3).item() == 0
