"""Equalities that users state: tested before they are in force, found where they are, gone when they are removed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt import runtime, stated
from smelt.compiler import trace
from smelt.config import configure
from smelt.errors import ArgumentError, DTypeError, ShapeError

rng = np.random.default_rng(3)


def normal(*shape: int, dtype: Any = np.float32) -> sm.Tensor:
    return sm.asarray(np.asarray(rng.normal(size=shape), dtype))


@pytest.fixture(autouse=True)
def no_rules() -> Iterator[None]:
    before = stated.stated()
    yield
    assert stated.stated() == before, "a test left a rule in force"


def most_of_sums(x: sm.Tensor) -> tuple[sm.Tensor, sm.Tensor]:
    return x.cumsum(axis=-1).max(axis=-1), x.cumsum(axis=-1).flip(-1).max(axis=-1)


def undone(x: sm.Tensor) -> tuple[sm.Tensor, sm.Tensor]:
    return x.expm1().log1p(), x


def weighed(function: Callable[..., Any], *args: Any, contracts: str = "fast") -> str:
    """What plans say about a function."""
    found = sm.jit(function, contracts=contracts)
    key, device = found.graph_key(*args)
    compiled = runtime.current().compiler.compile(key, device, explain=True)
    return "\n".join(map(str, compiled.weighed))


def planned(function: Callable[..., Any], *args: Any, contracts: str = "fast") -> str:
    """The program that is compiled for a function; its results stay."""
    found = sm.jit(function, contracts=contracts)
    key, device = found.graph_key(*args)
    expected = np.asarray(function(*args).numpy())
    np.testing.assert_allclose(found(*args).numpy(), expected, rtol=1e-4, atol=1e-4)
    return runtime.current().compiler.compile(key, device, explain=True).stages["rewritten"]


# --- rules that are taken


def test_a_rule_is_taken_where_it_pays() -> None:
    def f(x: sm.Tensor) -> sm.Tensor:
        return (x * 2).expm1().log1p() + 1

    x = normal(30, 40)
    assert "undone" not in weighed(f, x)
    with sm.rule(undone, contract="fast", examples=[(normal(3, 4),)]) as rule:
        assert "log1p" not in planned(f, x)
        assert "log1p" in planned(f, x, contracts="regroups")
        assert "log1p" in planned(f, x.astype(sm.float64)), "the example is float32"
        assert "log1p" in planned(f, x[0]), "the example has two axes"
        assert rule(x)[0].shape == (30, 40)
    assert "log1p" in planned(f, x)
    assert not rule.in_force


def test_variables_that_the_right_side_leaves_out() -> None:
    def left_out(x: sm.Tensor, c: sm.Tensor) -> tuple[sm.Tensor, sm.Tensor]:
        return (x + c).sin() - (c + x).sin() + x, x + 0

    def f(x: sm.Tensor, c: sm.Tensor) -> sm.Tensor:
        return (x + c.exp()).sin() - (x + c.exp()).sin() + x

    with sm.rule(left_out, contract="fast", examples=lambda: [(normal(3, 5), normal(5))]):
        assert "sin" not in planned(f, normal(640, 50), normal(50))
        assert "left_out: 1" not in weighed(lambda x, c: (x + c).sin() - x.sin() + x, normal(64, 5), normal(5))
        assert "left_out" not in weighed(lambda x, c: (x + c).cos() - (x + c).cos() + x, normal(64, 5), normal(5))


def test_transposed_matrices_are_variables_of_products() -> None:
    def outer_first(x: sm.Tensor, w: sm.Tensor, b: sm.Tensor) -> tuple[sm.Tensor, sm.Tensor]:
        return (x @ w).tanh() + b, b + sm.sinh(x @ w) / sm.cosh(x @ w)

    with sm.rule(outer_first, contract="fast", examples=[(normal(3, 4), normal(4, 5), normal(5))]):
        x, w, b = normal(8, 9), normal(7, 9), normal(7)
        assert "outer_first: 1 matches" in weighed(lambda x, w, b: b + (x @ w.T).tanh(), x, w, b)
        assert "outer_first: 1 matches" in weighed(lambda x, w, b: (x.T @ w).tanh() + b, normal(9, 8), w.T, b)


def test_constants_that_are_computed_are_part_of_a_pattern() -> None:
    def running_sums(x: sm.Tensor) -> tuple[sm.Tensor, sm.Tensor]:
        n = x.shape[0]
        return sm.tril(sm.ones((n, n))) @ x, x.cumsum(axis=0)

    with sm.rule(running_sums, contract="regroups", examples=[(normal(6, 4),)]):
        x = normal(200, 30)
        assert "contract" not in planned(lambda x: (sm.tril(sm.ones((200, 200))) @ x).tanh(), x)
        assert "contract" in planned(lambda x: (sm.triu(sm.ones((200, 200))) @ x).tanh(), x)
        assert "contract" in planned(lambda x: (sm.tril(sm.ones((200, 200)), 1) @ x).tanh(), x)


def test_sources_of_sums_are_tried_in_both_orders() -> None:
    def factored(a: sm.Tensor, b: sm.Tensor, c: sm.Tensor) -> tuple[sm.Tensor, sm.Tensor]:
        return (a * b).sin() * (a * c).cos(), (a * b).sin() * (-a * c).cos()

    with sm.rule(factored, contract="exact", examples=[(normal(3), normal(3), normal(3))]):
        a, b, c = normal(9), normal(9), normal(9)
        for f in (
            lambda a, b, c: (b * a).sin() * (a * c).cos(),
            lambda a, b, c: (c * a).cos() * (a * b).sin(),
            lambda a, b, c: (c * a).cos() * (b * a).sin(),
        ):
            assert "factored: 1 matches" in weighed(f, a, b, c)
        assert "factored: 1 matches" not in weighed(lambda a, b, c: (b * b).sin() * (a * c).cos(), a, b, c)


def test_sizes_that_are_equal_in_an_example_have_to_be_equal() -> None:
    def f(x: sm.Tensor) -> sm.Tensor:
        return x.cumsum(axis=-1).max(axis=-1)

    with sm.rule(most_of_sums, contract="reassociates", examples=[(normal(4, 4),)]):
        assert "most_of_sums: 1 matches" in weighed(f, normal(30, 30))
        assert "most_of_sums: 1 matches" not in weighed(f, normal(30, 31))


def test_a_rule_with_sizes_written_in_it_is_for_these() -> None:
    def halves(x: sm.Tensor) -> tuple[sm.Tensor, sm.Tensor]:
        return x.reshape(2, 22).sum(axis=0).sin(), (x[:22] + x[22:]).sin()

    with sm.rule(halves, contract="reassociates", examples=[(normal(44),)]):
        assert "halves: 1 matches" in weighed(lambda x: x.reshape(2, 22).sum(axis=0).sin(), normal(44))
        assert "halves: 1 matches" not in weighed(lambda x: x.reshape(2, 23).sum(axis=0).sin(), normal(46))


def test_symbolic_sizes() -> None:
    n = sm.Dim("n", 2, 1000)

    def f(x: sm.Tensor) -> sm.Tensor:
        return x.cumsum(axis=-1).max(axis=-1)

    with sm.rule(most_of_sums, contract="reassociates", examples=[(normal(3, 4),)]):
        found = sm.jit(f, shapes=[(n, 40)], contracts="fast")
        for rows in (2, 300):
            x = normal(rows, 40)
            np.testing.assert_allclose(found(x).numpy(), x.numpy().cumsum(-1).max(-1), rtol=1e-4, atol=1e-4)
        key, device = found.graph_key(normal(7, 40))
        [found_there] = runtime.current().compiler.compile(key, device, explain=True).weighed
        assert "most_of_sums: 1 matches" in str(found_there)


def test_several_examples_are_several_ranks() -> None:
    def last(x: sm.Tensor) -> tuple[sm.Tensor, sm.Tensor]:
        return x.cumsum(axis=-1).max(axis=-1), x.cumsum(axis=-1).flip(-1).max(axis=-1)

    with sm.rule(last, contract="reassociates", examples=[(normal(3, 4),), (normal(2, 3, 4),)]):
        assert "last: 1 matches" in weighed(lambda x: x.cumsum(axis=-1).max(axis=-1), normal(8, 9))
        assert "last: 1 matches" in weighed(lambda x: x.cumsum(axis=-1).max(axis=-1), normal(8, 9, 7))
        assert "last: 1 matches" not in weighed(lambda x: x.cumsum(axis=-1).max(axis=-1), normal(8, 9, 7, 2))


def test_integers_and_their_constants() -> None:
    def doubled(x: sm.Tensor) -> tuple[sm.Tensor, sm.Tensor]:
        return x * 2, x << 1

    with sm.rule(doubled, examples=[(sm.asarray([1, 2, 3]),)]):
        assert "doubled: 1 matches" in weighed(lambda x: x * 2, sm.asarray([4, 5]))
        assert "doubled: 1 matches" not in weighed(lambda x: x * 4, sm.asarray([4, 5]))


# --- coming and going


def test_a_new_definition_takes_the_place_of_the_old_one() -> None:
    rules = [sm.rule(most_of_sums, contract="reassociates", examples=[(normal(3, 4),)]) for _ in range(2)]
    assert [rule.in_force for rule in rules] == [False, True]
    assert repr(rules[0]) == "rule(most_of_sums, contract='reassociates', removed)"
    rules[1].remove()
    rules[1].remove()
    with rules[0]:
        assert rules[0].in_force


def test_keys_of_graphs_know_the_rules_in_force() -> None:
    x = normal(3, 4)
    keys = [trace([(x + 1)._node]).key]
    with sm.rule(most_of_sums, contract="reassociates", examples=[(x,)]) as rule:
        keys.append(trace([(x + 1)._node]).key)
    keys.append(trace([(x + 1)._node]).key)
    with rule:
        keys.append(trace([(x + 1)._node]).key)
    with sm.rule(most_of_sums, contract="fast", examples=[(x,)]):
        keys.append(trace([(x + 1)._node]).key)
    assert keys[0] == keys[2] and keys[1] == keys[3]
    assert len(set(keys)) == 3


def test_what_a_rule_reads_from_outside_is_part_of_what_it_says() -> None:
    def made(limit: int) -> Any:
        def small(x: sm.Tensor) -> tuple[sm.Tensor, sm.Tensor]:
            turned = x.cumsum(axis=-1).flip(-1) if x.shape[0] < limit else -(-x).cumsum(axis=-1)
            return x.cumsum(axis=-1).max(axis=-1), turned.max(axis=-1)

        return sm.rule(small, contract="fast", examples=[(normal(3, 4),)])

    names = []
    for limit in (100, 100, 101):
        with made(limit):
            names.append(stated.stated())
    assert names[0] == names[1] != names[2]


def test_records_on_disk_know_the_rules_in_force(tmp_path: Path) -> None:
    def f(x: sm.Tensor) -> sm.Tensor:
        return x.cumsum(axis=-1).max(axis=-1)

    def count() -> int:
        runtime.current().clear_caches()
        sm.jit(f, contracts="fast")(normal(30, 40)).numpy()
        return len(list((tmp_path / "graphs").iterdir()))

    with configure(cache_dir=tmp_path, disk_cache=True):
        assert count() == 1
        with sm.rule(most_of_sums, contract="reassociates", examples=[(normal(3, 4),)]):
            before = count()
            assert before > 1
            assert count() == before
        assert count() == before


# --- rules that are refused


def refused(function: Any, *examples: Any, contract: str = "exact", kind: type[Exception] = ArgumentError) -> str:
    with pytest.raises(kind) as error:
        sm.rule(function, contract=contract, examples=list(examples))
    return str(error.value)


def test_a_wrong_rule_shows_the_first_difference() -> None:
    def wrong(x: sm.Tensor, y: sm.Tensor) -> tuple[sm.Tensor, sm.Tensor]:
        return (x + y).exp(), x.exp() + y.exp()

    text = refused(wrong, (sm.zeros((2, 3)), sm.zeros(3)), contract="fast")
    assert "rule wrong: the sides differ on the example of x float32[2, 3], y float32[3]" in text
    assert "at [0, 0]: 1.0 and 2.0" in text and "'fast' does not allow that" in text


def test_a_rule_that_only_the_example_fulfils() -> None:
    def doubled(x: sm.Tensor) -> tuple[sm.Tensor, sm.Tensor]:
        return x * x, x + x

    assert "differ on random inputs" in refused(doubled, (sm.full((3,), 2.0),), contract="fast")

    def of_its_size(x: sm.Tensor) -> tuple[sm.Tensor, sm.Tensor]:
        return (x + x.shape[0]) ^ x, (x + 3) ^ x

    assert "differ on random inputs of x int64[" in refused(of_its_size, (sm.asarray([1, 2, 3]),), contract="fast")


def test_a_contract_that_is_too_narrow() -> None:
    def regrouped(x: sm.Tensor, y: sm.Tensor, z: sm.Tensor) -> tuple[sm.Tensor, sm.Tensor]:
        return x * z + y * z, (x + y) * z

    text = refused(regrouped, (normal(9), normal(9), normal(9)))
    assert "State a wider contract if only rounding differs." in text
    with sm.rule(regrouped, contract="regroups", examples=[(normal(9), normal(9), normal(9))]):
        pass

    def signed(x: sm.Tensor) -> tuple[sm.Tensor, sm.Tensor]:
        return (x + 0).sin(), x.sin()

    assert "differ on random inputs" in refused(signed, (normal(40),)), "-0.0 + 0 is 0.0"
    assert "differ on random inputs" in refused(regrouped, (*[normal(90)] * 3,), contract="reassociates"), "infinities"

    def turned(x: sm.Tensor) -> tuple[sm.Tensor, sm.Tensor]:
        return x.cumsum(axis=0).max(), x.flip(0).cumsum(axis=0).max() * 0 + x.cumsum(axis=0).max()

    def summed(x: sm.Tensor) -> tuple[sm.Tensor, sm.Tensor]:
        return x.sum(axis=0).sin(), x.flip(0).sum(axis=0).sin()

    assert 'State the contract "reassociates"' in refused(summed, (normal(9),))
    assert "differ" in refused(turned, (normal(9),)), "NaN"


def test_what_narrow_floats_hide_shows_in_wide_ones() -> None:
    def nearly(x: sm.Tensor, s: sm.Tensor) -> tuple[sm.Tensor, sm.Tensor]:
        return x.sin() * s, x.sin() * (s * 1.001)

    half = sm.asarray(np.asarray([1.0, 2.0], np.float16))
    assert "computed in float64" in refused(nearly, (half, half), contract="fast")


OUTSIDE = normal(3)


@pytest.mark.parametrize(
    ("function", "kind", "said"),
    [
        (lambda x, y: (x.sin(), x.sin() + y), ArgumentError, "reads y, which the left side does not bind"),
        (lambda x, y: ((x + y).sin(), (x + y).sin().sum()), ShapeError, "both sides must have the same shape"),
        (lambda x, y: ((x + y).sin(), (x + y).sin().astype(sm.float64)), DTypeError, "same dtype"),
        (lambda x, y: (x + y, y + x), ArgumentError, "both sides are the same program"),
        (lambda x, y: (x, x), ArgumentError, "no side reads y"),
        (lambda x, y: x + y, ArgumentError, "a rule returns two tensors"),
        (lambda x, y: (x + y, x - -y, x), ArgumentError, "a tuple of 3"),
        (lambda x, y: ((x + y)[1:].sin(), -(-x - y)[1:].sin()), ArgumentError, "takes a part of a tensor"),
        (lambda x, y: ((x + y) * 0.5, x * 0.5 + y * 0.5), ArgumentError, "has the number 0.5 in it"),
        (lambda x, y: (x + y + OUTSIDE, OUTSIDE + (x + y)), ArgumentError, "not among the arguments"),
        (lambda x, y: (x + y + sm.random.normal((3,)), x), ArgumentError, "random"),
        (lambda x, y: (x + y, sm.callback(np.add, x, x, y)), ArgumentError, "a loop, a branch or a callback"),
        (lambda x, y: (sm.sort(x + y).sin(), sm.sort(y - -x).sin() + 0 * y), ArgumentError, "own left side"),
    ],
)
def test_what_is_no_rule_is_refused(function: Any, kind: type[Exception], said: str) -> None:
    assert said in refused(function, (normal(3), normal(3)), contract="fast", kind=kind)


def test_a_rule_that_never_ends_is_refused() -> None:
    def growing(x: sm.Tensor, y: sm.Tensor) -> tuple[sm.Tensor, sm.Tensor]:
        return x * y, (x + x) * (y * 0.5)

    assert "again and again" in refused(growing, (normal(3), normal(3)), contract="fast")


def test_a_left_side_that_is_only_a_variable() -> None:
    assert "only a variable" in refused(lambda x: (x, x.abs() * x.sign()), (normal(3),), contract="fast")


@pytest.mark.parametrize(
    "examples", [None, [], 3, [(normal(3),)], [(normal(3), normal(3)), 2], [(sm.ones(0), sm.ones(0))]]
)
def test_examples_that_are_none(examples: Any) -> None:
    with pytest.raises(ArgumentError):
        sm.rule(lambda x, y: (x + y, y + x), examples=examples)


def test_other_mistakes() -> None:
    with pytest.raises(ArgumentError, match="there is no contract 'roughly'"):
        sm.rule(most_of_sums, contract="roughly", examples=[(normal(3, 4),)])
    with pytest.raises(ArgumentError, match="is not a function"):
        sm.rule(3, examples=[])  # type: ignore[call-overload]
    with pytest.raises(ArgumentError, match="each argument is a variable"):
        sm.rule(lambda *x: x, examples=[(1, 2)])
    with pytest.raises(ArgumentError, match="while a function is traced"):
        sm.jit(lambda x: sm.rule(most_of_sums, examples=[(x,)]))(normal(3, 4))


def test_a_function_that_fails_for_other_sizes_only_does_not_match_there() -> None:
    def small(x: sm.Tensor) -> tuple[sm.Tensor, sm.Tensor]:
        if x.shape[0] > 20:
            raise ZeroDivisionError
        return x.cumsum(axis=-1).max(axis=-1), x.cumsum(axis=-1).flip(-1).max(axis=-1)

    def f(x: sm.Tensor) -> sm.Tensor:
        return x.cumsum(axis=-1).max(axis=-1)

    with contextlib.ExitStack() as stack:
        stack.enter_context(sm.rule(small, contract="fast", examples=[(normal(3, 4),)]))
        assert "small: 1 matches" in weighed(f, normal(8, 30))
        assert "small: 1 matches" not in weighed(f, normal(30, 8))
