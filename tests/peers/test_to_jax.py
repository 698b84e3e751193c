"""Functions of tensors, under jit, grad and vmap of JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import smelt as sm

RNG = np.random.default_rng(5)


def draw(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


W = sm.asarray(draw(5, 5))
LINEAR = sm.nn.Linear(5, 3)


@sm.custom_vjp
def clipped(x: Any) -> Any:
    return x * x


clipped.defvjp(lambda x: (x * x, x), lambda x, ct: (sm.clip(2 * x * ct, -1, 1),))


def recurrent(x: Any) -> Any:
    return sm.scan(lambda h, row: (sm.tanh(h @ W + row), h * row), sm.zeros(5), x)


# Of one element: a matrix of four rows and five columns.
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "sine": lambda x: sm.sin(x) * x**3,
    "closure": lambda x: sm.tanh(x @ W),
    "module": lambda x: LINEAR(x).relu(),
    "softmax": lambda x: sm.softmax(x, -1),
    "log_softmax": lambda x: sm.log_softmax(x, 0),
    "logsumexp": lambda x: sm.logsumexp(x, -1),
    "gelu": sm.gelu,
    "gelu with tanh": lambda x: sm.gelu(x, approximate="tanh"),
    "silu": sm.silu,
    "softplus": sm.softplus,
    "layer norm": lambda x: sm.layer_norm(x, axes=1),
    "rms norm": lambda x: sm.rms_norm(x, axes=1),
    "attention": lambda x: sm.attention(x[None, None], x[None, None] @ W, x[None, None], causal=True)[0, 0],
    "cross entropy": lambda x: sm.cross_entropy(x, sm.asarray([0, 4, 2, 2])),
    "custom_vjp": clipped,
    "scan": recurrent,
    "fori_loop": lambda x: sm.fori_loop(0, 3, lambda i, c: sm.tanh(c @ W) + i, x),
    "cond": lambda x: sm.cond(x.sum() > 0, sm.sin, sm.cos, x),
    "checkpoint": sm.checkpoint(lambda x: sm.sin(sm.sin(x @ W))),
    "stop_gradient": lambda x: x * sm.stop_gradient(x),
    "sort": lambda x: sm.sort(x, axis=-1) * sm.arange(5),
    "maximum": lambda x: x.max(1),
    "cumulative": lambda x: (sm.cumulative_sum(x, axis=0), sm.cumulative_prod(x, axis=1)),
    "indexing": lambda x: (x[sm.asarray([2, 0, 2])], x.at[1:3, 2].multiply(3.0)),
    "convolution": lambda x: sm.conv2d(x[None, None], W[None, None, :3, :3], padding=1),
    "pooling": lambda x: sm.max_pool2d(x[None, None], 2),
    "einsum": lambda x: sm.einsum("ij,kj,kl->il", x, x, x),
    "tree": lambda x: {"rows": [x.mean(0), sm.std(x, axis=1)], "norm": (sm.linalg.vector_norm(x),), "nothing": None},
    "moved": lambda x: sm.concat([x.T[::-1], sm.flip(x, axis=1).T], axis=1)[:, 1:-1:2],
    "special": lambda x: sm.erf(x) + sm.lgamma(abs(x) + 1),
    "gradient": sm.grad(lambda x: (sm.tanh(x @ W) ** 2).sum()),
    "batched": sm.vmap(lambda row: sm.outer(row, row).sum(0)),
}


def loss(function: Callable[[Any], Any], xp: Any) -> Callable[[Any], Any]:
    """A number that depends on all results."""

    def summed(x: Any) -> Any:
        return sum((xp.sin(part) * (k + 1)).sum() for k, part in enumerate(jax.tree.leaves(function(x))))

    return summed


def check(found: Any, wanted: Any, tolerance: float = 1e-5) -> None:
    given, nested = jax.tree.flatten(found)
    parts, structure = jax.tree.flatten(wanted)
    assert nested == structure
    for a, b in zip(given, parts, strict=True):
        assert isinstance(a, jax.Array)
        np.testing.assert_allclose(np.asarray(a), b.numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_under_jit_grad_and_vmap(name: str) -> None:
    function, x, batch = FUNCTIONS[name], draw(4, 5), draw(3, 4, 5)
    exported = sm.to_jax(function)
    check(jax.jit(exported)(x), function(sm.asarray(x)))
    check(jax.vmap(exported)(batch), sm.vmap(function)(sm.asarray(batch)))
    slope, mine = jax.grad(loss(exported, jnp)), sm.grad(loss(function, sm))
    check(jax.jit(slope)(x), mine(sm.asarray(x)), 5e-5)
    check(jax.jit(jax.vmap(slope))(batch), sm.vmap(mine)(sm.asarray(batch)), 5e-5)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "custom_vjp"])
def test_forward_derivatives(name: str) -> None:
    function, x, change, batch = FUNCTIONS[name], draw(4, 5), draw(4, 5), draw(3, 4, 5)
    exported = sm.to_jax(function)
    value, wanted = sm.jvp(function, (sm.asarray(x),), (sm.asarray(change),))
    found = jax.jit(lambda x, change: jax.jvp(exported, (x,), (change,)))(x, change)
    check(found, (value, wanted), 5e-5)
    _, pushed = jax.linearize(exported, x)
    check(pushed(change), wanted, 5e-5)
    rows = sm.vmap(lambda change: sm.jvp(function, (sm.asarray(x),), (change,))[1])(sm.asarray(batch))
    check(jax.jit(jax.vmap(pushed))(batch), rows, 5e-5)
    # A gradient through the change.
    slope = jax.grad(loss(lambda x: jax.jvp(exported, (x,), (change,))[1], jnp))
    mine = sm.grad(loss(lambda x: sm.jvp(function, (x,), (sm.asarray(change),))[1], sm))
    check(jax.jit(slope)(x), mine(sm.asarray(x)), 2e-4)


@pytest.mark.parametrize("name", ["sine", "attention", "layer norm", "scan", "checkpoint", "batched"])
def test_matrices_of_derivatives(name: str) -> None:
    function, x = FUNCTIONS[name], draw(4, 5)
    exported, wanted = sm.to_jax(function), sm.jacobian(function)(sm.asarray(x))
    check(jax.jit(jax.jacfwd(exported))(x), wanted, 5e-5)
    check(jax.jit(jax.jacrev(exported))(x), wanted, 5e-5)
    second = sm.hessian(loss(function, sm))(sm.asarray(x))
    check(jax.jit(jax.hessian(loss(exported, jnp)))(x), second, 1e-3)


def test_only_what_changes_is_pushed_forward() -> None:
    def function(x: Any, k: Any, y: Any) -> Any:
        return {"product": x * y, "place": k + 1, "picked": x[k]}

    exported, k, change = sm.to_jax(function), np.int32(2), draw(3)
    x, y = draw(3), draw(3)
    _, found = jax.jvp(lambda x: exported(x, k, y), (x,), (change,))
    _, wanted = jax.jvp(lambda x: {"product": x * y, "place": jnp.int32(3), "picked": x[2]}, (x,), (change,))
    assert found["place"].dtype == jax.dtypes.float0
    for name in ("product", "picked"):
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-6)


def test_own_gradients_in_loops_batches_and_checkpoints_of_jax() -> None:
    exported, x = sm.to_jax(clipped), draw(3, 4)

    def rolled(step: Any) -> Any:
        return lambda x: jax.lax.scan(lambda h, _: (step(h), h.sum()), x, None, length=3)[0].sum()

    def by_hand(x: Any) -> Any:
        values = [x, x**2, x**4]
        slope = np.ones_like(x)
        for value in reversed(values):
            slope = np.clip(2 * value * slope, -1, 1)
        return slope

    for step in (exported, jax.checkpoint(exported), jax.jit(exported), jax.vmap(exported)):
        np.testing.assert_allclose(jax.jit(jax.grad(rolled(step)))(x), by_hand(x), rtol=1e-5)
        np.testing.assert_allclose(jax.vmap(jax.grad(rolled(step)))(x[:, None])[:, 0], by_hand(x), rtol=1e-5)
    with pytest.raises(sm.errors.ArgumentError, match="has no forward derivative"):
        jax.jvp(exported, (x,), (x,))


def test_what_is_linear_is_transposed() -> None:
    w, x = draw(4, 3), draw(4)
    exported = sm.to_jax(lambda x: x @ sm.asarray(w))
    (found,) = jax.linear_transpose(exported, x)(draw(3) * 0 + 2)
    np.testing.assert_allclose(found, w.sum(1) * 2, rtol=1e-5)
    (back,) = jax.linear_transpose(jax.vjp(exported, x)[1], x[:3])((x,))
    np.testing.assert_allclose(back, x @ w, rtol=1e-5)
    with pytest.raises(sm.errors.TraceError, match="what is transposed is linear"):
        jax.linear_transpose(sm.to_jax(lambda x: x * x), x)(x)


@pytest.mark.parametrize(
    ("dtype", "number"),
    [(dtype, n) for dtype in ("bfloat16", "float16", "float32", "complex64") for n in (2.0, 3)] + [("int8", 3)],
)
def test_numbers_of_python_take_the_dtype_of_what_they_meet(dtype: str, number: Any) -> None:
    def function(x: Any, n: Any) -> Any:
        return x * n, n + 1, 2 * (n * n) - x[0]

    x = jnp.arange(3).astype(dtype)
    exported = sm.to_jax(function)
    for call, plain in ((exported, function), (jax.jit(exported), jax.jit(function))):
        found, wanted = call(x, number), plain(x, jnp.asarray(number))
        assert [(a.dtype, a.weak_type) for a in found] == [(b.dtype, b.weak_type) for b in wanted]
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_numbers_of_python_have_derivatives() -> None:
    exported, x = sm.to_jax(lambda x, n: (x * n).sum() * n), jnp.arange(3, dtype=jnp.bfloat16)
    slope = jax.grad(exported, argnums=(0, 1))(x, 2.0)
    wanted = jax.grad(lambda x, n: (x * n).sum() * n, argnums=(0, 1))(x, 2.0)
    assert [(a.dtype, a.tolist()) for a in slope] == [(b.dtype, b.tolist()) for b in wanted]
    assert jax.grad(sm.to_jax(lambda n: 3 * n**2))(2.0) == 12
    with jax.enable_x64(True):
        assert jax.jvp(sm.to_jax(lambda n: n / 3), (1.0,), (1.0,))[1] == 1 / 3
        assert sm.to_jax(lambda n: n / 3)(1.0) == 1 / 3
        assert sm.to_jax(lambda x, n: x / n)(jnp.float32(1), 3.0).dtype == jnp.float32


def test_keys_of_jax() -> None:
    def function(key: Any, x: Any) -> Any:
        return x + sm.random.uniform(x.shape, key=key)

    exported, x = sm.to_jax(function), draw(3)
    for seed in (0, 7):
        key = jax.random.key(seed)
        wanted = function(sm.asarray(np.asarray(jax.random.key_data(key))), sm.asarray(x)).numpy()
        for given in (key, jax.random.key_data(key), jax.random.PRNGKey(seed)):
            np.testing.assert_array_equal(jax.jit(exported)(given, x), wanted)
            np.testing.assert_array_equal(exported(given, x), wanted)
    keys = jax.random.split(jax.random.key(3), 4)
    rows = jax.vmap(exported, in_axes=(0, None))(keys, x)
    np.testing.assert_array_equal(rows[2], exported(keys[2], x))
    assert jax.grad(lambda x: exported(keys[0], x).sum())(x).tolist() == [1, 1, 1]
    with pytest.raises(sm.errors.ArgumentError, match=r"of the kind rbg[\s\S]*impl=.threefry2x32"):
        exported(jax.random.key(0, impl="rbg"), x)


def test_static_arguments() -> None:
    seen = []

    @sm.to_jax(static=("size", 2))
    def function(x: Any, size: int, flag: bool = False) -> Any:
        seen.append((size, flag))
        return x.reshape(size, -1) if flag is False else x

    x = draw(6)
    assert function(x, 2).shape == (2, 3) and function(x, size=3).shape == (3, 2)
    assert jax.jit(function, static_argnums=(1, 2))(x, 2, True).shape == (6,)
    assert jax.vmap(lambda x: function(x, 2))(x[None]).shape == (1, 2, 3)
    assert set(seen) == {(2, False), (3, False), (2, True)} and all(type(size) is int for size, _ in seen)
    with pytest.raises(sm.errors.ArgumentError, match="no argument 'length'"):
        sm.to_jax(lambda x, size: x, static="length")
    with pytest.raises(sm.errors.ArgumentError, match=r"no static_argnums=[\s\S]*Write static=1"):
        sm.to_jax(lambda x, size: x, static_argnums=1)
    with pytest.raises(sm.errors.ArgumentError, match="neither an array nor hashable"):
        function(x, [2])


def test_loops_of_no_iterations() -> None:
    def function(x: Any) -> Any:
        return sm.scan(lambda c, row: (c + row, c * row), sm.ones(3), x)

    x = np.zeros((0, 3), np.float32)
    exported = sm.to_jax(function)
    check(jax.jit(exported)(x), function(sm.asarray(x)))
    check(jax.vmap(exported)(np.zeros((2, 0, 3), np.float32)), sm.vmap(function)(sm.zeros((2, 0, 3))))
    check(jax.jit(jax.grad(loss(exported, jnp)))(x), sm.grad(loss(function, sm))(sm.asarray(x)))


def test_outside_of_jit_and_to_higher_orders() -> None:
    function = FUNCTIONS["sine"]
    exported = sm.to_jax(function)
    check(exported(1.3), function(sm.asarray(1.3)))
    check(jax.grad(jax.grad(jax.grad(exported)))(1.3), sm.grad(sm.grad(sm.grad(function)))(sm.asarray(1.3)))


def test_there_and_back_again() -> None:
    def function(x: Any) -> Any:
        return jnp.tanh(x).sum(0)

    x = draw(3, 2)
    np.testing.assert_allclose(sm.to_jax(sm.from_jax(function))(x), function(x), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        sm.from_jax(sm.to_jax(lambda x: sm.tanh(x).sum(0)))(x), function(x), rtol=1e-5, atol=1e-6
    )


def test_several_arguments_of_all_kinds() -> None:
    def function(tree: Any, numbers: Any, mode: str) -> Any:
        return {"sum": tree["a"].sum() + tree["b"][0], "kept": numbers if mode == "kept" else numbers.argmax()}

    exported = sm.to_jax(function)
    tree = {"a": draw(3), "b": (jnp.ones(()), np.int32(2))}
    found = exported(tree, np.arange(4, dtype=np.int32), "kept")
    np.testing.assert_allclose(found["sum"], tree["a"].sum() + 1, rtol=1e-6)
    assert found["kept"].tolist() == [0, 1, 2, 3]
    largest = exported(tree, np.arange(4, dtype=np.int32), "largest")["kept"]
    assert int(largest) == 3 and largest.dtype == jnp.int32  # 64 bits are not turned on
    slope = jax.grad(lambda tree: exported(tree, np.arange(4), "kept")["sum"], allow_int=True)(tree)
    assert slope["a"].tolist() == [1, 1, 1] and slope["b"][1].dtype == jax.dtypes.float0


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (2, 3)])
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "float16", "bfloat16", "float32", "complex64"])
def test_arrays_of_every_dtype(dtype: str, shape: tuple[int, ...]) -> None:
    x = jnp.asarray(RNG.integers(0, 2, shape)).astype(dtype)
    found = jax.jit(sm.to_jax(lambda x: x.reshape(-1)))(x)
    assert found.dtype == x.dtype and found.tolist() == x.reshape(-1).tolist()


def test_complex_arrays_are_operations_of_xla() -> None:
    function = sm.to_jax(lambda z, x: {"product": sm.exp(z) * x, "size": abs(z)})
    z, x = jnp.asarray(draw(3) + 1j * draw(3)), jnp.asarray(draw(3))
    assert "custom_call" not in jax.jit(function).lower(z, x).as_text()
    found = jax.jit(function)(z, x)
    np.testing.assert_allclose(found["product"], np.exp(z) * x, rtol=1e-5)
    np.testing.assert_allclose(found["size"], abs(z), rtol=1e-5)
    slope = jax.grad(lambda z: (function(z, x)["size"] ** 2).sum())(z)
    np.testing.assert_allclose(slope, jax.grad(lambda z: (abs(z) ** 2).sum())(z), rtol=1e-5)


def test_what_has_no_text_is_computed_by_smelt() -> None:
    exported = sm.to_jax(lambda x: sm.callback(np.sin, x, x) + 1)
    x = draw(3)
    np.testing.assert_allclose(jax.jit(exported)(x), np.sin(x) + 1, rtol=1e-6)
    np.testing.assert_allclose(exported(x), np.sin(x) + 1, rtol=1e-6)


def test_xla_sees_operations_and_no_calls() -> None:
    text = jax.jit(sm.to_jax(lambda x: sm.tanh(x) + 1)).lower(draw(3)).as_text()
    assert "stablehlo.tanh" in text and "custom_call" not in text


OPEN: dict[str, tuple[Callable[..., Any], list[str], list[tuple[tuple[int, ...], ...]]]] = {
    "softmax": (lambda x: sm.softmax(x, -1) + 1, ["n, 4"], [((3, 4),), ((7, 4),)]),
    "sizes": (
        lambda x, y, z: (sm.concat([x, y]), sm.arange(x.shape[0]) * 1.5, x[: x.shape[0] // 2] * y.shape[0], z),
        ["n, 4", "2*n*m + n^2 - 1, 4", "m"],
        [((3, 4), (20, 4), (2,)), ((2, 4), (7, 4), (1,))],
    ),
    "quotients": (
        lambda x, y, z: (x[: x.shape[0] // 2] + y.mean(1, keepdims=True), z.sum()),
        ["n, 3", "floordiv(n, 2), m", "max(n, m), mod(n, 3)"],
        [((7, 3), (3, 9), (9, 1)), ((6, 3), (3, 4), (6, 0))],
    ),
    "product": (lambda x, y: sm.relu(x @ y), ["n, m", "m, n"], [((3, 4), (4, 3)), ((2, 1), (1, 2))]),
    "scan": (lambda x: sm.scan(lambda c, row: (c + row, c * row), sm.zeros(4), x), ["n, 4"], [((5, 4),)]),
    "attention": (lambda x: sm.attention(x, x, x, causal=True), ["2, n, 4"], [((2, 3, 4),), ((2, 9, 4),)]),
    "sort": (lambda x: sm.sort(x, axis=0), ["n, 2"], [((7, 2),)]),
    "running": (
        lambda x: (sm.cumulative_sum(x, axis=0), sm.logcumsumexp(x.T, axis=1)),
        ["n, 2"],
        [((7, 2),), ((2, 2),), ((64, 2),)],
    ),
    "batched": (jax.vmap(sm.to_jax(lambda row: sm.outer(row, row).sum(0))), ["n, 4"], [((3, 4),)]),
}


@pytest.mark.parametrize("name", OPEN)
def test_sizes_that_are_not_known_when_it_is_exported(name: str) -> None:
    function, texts, calls = OPEN[name]
    function = function if name == "batched" else sm.to_jax(function)
    scope = export.SymbolicScope(["n <= 64", "n >= 2"])
    types = [jax.ShapeDtypeStruct(export.symbolic_shape(text, scope=scope), np.float32) for text in texts]

    def slope(*args: Any) -> Any:
        return jax.grad(lambda *xs: sum(jnp.sin(part).sum() for part in jax.tree.leaves(function(*xs))))(*args)

    for wanted in (function, slope, lambda *args: jax.jvp(function, args, args)):
        exported = export.export(jax.jit(wanted))(*types)
        for shapes in calls:
            args = [draw(*shape) for shape in shapes]
            for a, b in zip(jax.tree.leaves(exported.call(*args)), jax.tree.leaves(wanted(*args)), strict=True):
                np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


def test_what_open_sizes_do_not_allow() -> None:
    n, m = (jax.ShapeDtypeStruct((size,), np.float32) for size in export.symbolic_shape("n, m"))
    with pytest.raises(sm.errors.ShapeError, match=r"\(n,\) and \(m,\)[\s\S]*at test_to_jax"):
        export.export(jax.jit(sm.to_jax(lambda x, y: x + y)))(n, m)
    with pytest.raises(sm.errors.ArgumentError, match=r"value of n cannot be read off the shapes"):
        export.export(jax.jit(sm.to_jax(sm.sum)))(jax.ShapeDtypeStruct((2 * n.shape[0],), np.float32))
    with pytest.raises(sm.errors.TraceError, match="is computed by Python, and its sizes are not known"):
        export.export(jax.jit(sm.to_jax(lambda x: sm.callback(np.sin, x, x))))(n)


def test_errors_name_the_line_of_the_user() -> None:
    with pytest.raises(sm.errors.TraceError, match="at test_to_jax"):
        jax.jit(sm.to_jax(lambda x: x + sm.random.normal((3,))))(draw(3))
    with pytest.raises(sm.errors.ShapeError, match="at test_to_jax"):
        jax.grad(lambda x: sm.to_jax(lambda x: x + sm.ones(4))(x).sum())(draw(3))


def test_mistakes() -> None:
    with pytest.raises(sm.errors.ArgumentError, match="3 is not a function"):
        sm.to_jax(3)  # type: ignore[arg-type]
    with pytest.raises(sm.errors.TraceError, match="draws random numbers without a key"):
        sm.to_jax(lambda x: x + sm.random.normal((3,)))(draw(3))
    with pytest.raises(sm.errors.ArgumentError, match="gives a str"):
        sm.to_jax(lambda x: "no")(draw(3))
    with pytest.raises(sm.errors.TraceError, match="the value is not known"):
        sm.to_jax(lambda x: x if x.sum() > 0 else -x)(draw(3))
