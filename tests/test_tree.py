"""Pytrees: what is flattened comes back, and structures compare by what they hold."""

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import smelt as sm
from smelt import tree
from smelt.errors import ArgumentError


class Pair(NamedTuple):
    left: Any
    right: Any


class Layer:
    def __init__(self, weight: Any, name: str) -> None:
        self.weight, self.name = weight, name


tree.register(Layer, lambda layer: ([layer.weight], layer.name), lambda name, children: Layer(children[0], str(name)))

trees = st.recursive(
    st.integers() | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        | st.builds(Pair, inner, inner)
    ),
    max_leaves=12,
)


@given(trees)
def test_flattening_and_back(value: Any) -> None:
    leaves, structure = tree.flatten(value)
    assert tree.unflatten(structure, leaves) == value
    assert hash(structure) == hash(tree.flatten(value)[1])


def test_leaves_come_in_a_fixed_order() -> None:
    assert tree.flatten({"b": 1, "a": (2, [3, None])})[0] == [2, 3, 1]
    assert tree.flatten({"a": (2, [3, None]), "b": 1})[1] == tree.flatten({"b": 5, "a": (6, [7, None])})[1]


def test_structures_differ_where_the_trees_do() -> None:
    structures = [
        tree.flatten(value)[1] for value in ((1, 2), [1, 2], {"a": 1, "b": 2}, Pair(1, 2), (1, (2,)), (1, None))
    ]
    assert len(set(structures)) == len(structures)


def test_registered_classes_are_inner_nodes() -> None:
    leaves, structure = tree.flatten([Layer(1, "a"), Layer(2, "b")])
    assert leaves == [1, 2]
    back = tree.unflatten(structure, [10, 20])
    assert [(layer.weight, layer.name) for layer in back] == [(10, "a"), (20, "b")]


def test_map_over_several_trees() -> None:
    assert tree.map(lambda a, b: a + b, {"x": 1, "y": (2,)}, {"x": 10, "y": (20,)}) == {"x": 11, "y": (22,)}
    with pytest.raises(ArgumentError, match="different structures"):
        tree.map(lambda a, b: a, (1,), [1])


def test_keys_that_do_not_sort_are_refused() -> None:
    with pytest.raises(ArgumentError, match="sort"):
        tree.flatten({1: 2, "a": 3})


def test_a_prefix_says_something_about_every_leaf() -> None:
    _, structure = tree.flatten(({"a": 1, "b": [2, 3]}, Pair(4, None), Layer(5, "x")))
    assert tree.spread(7, structure, "axes") == [7] * 5
    assert tree.spread((None, 1, 2), structure, "axes") == [None, None, None, 1, 2]
    assert tree.spread(({"a": 0, "b": [1, None]}, Pair(2, 3), Layer(4, "x")), structure, "axes") == [0, 1, None, 2, 4]


@pytest.mark.parametrize(
    ("prefix", "text"),
    [
        ((1, 2), "axes has a tuple of 2 where there is a tuple of 1"),
        ([1], "axes has a list of 1 where there is a tuple of 1"),
        (({"b": 1},), "axes has a dict of 'b' where there is a dict of 'a'"),
        (({"a": (1,)},), "axes has a tuple of 1 where there is a leaf"),
    ],
)
def test_a_prefix_of_another_form_is_refused(prefix: Any, text: str) -> None:
    _, structure = tree.flatten(({"a": 1},))
    with pytest.raises(ArgumentError, match=text):
        tree.spread(prefix, structure, "axes")


def test_paths_lead_to_the_leaves() -> None:
    _, structure = tree.flatten(({"a": 1, "b": [2, None, 3]}, Pair(4, 5)))
    assert tree.paths(structure) == ["[0]['a']", "[0]['b'][0]", "[0]['b'][2]", "[1].left", "[1].right"]


def circle() -> list[Any]:
    circle: list[Any] = [sm.ones(2)]
    circle.append({"again": circle})
    return circle


ENDLESS = {
    "flatten": lambda: tree.flatten(circle()),
    "map": lambda: tree.map(lambda x: x, circle()),
    "jit": lambda: sm.jit(lambda t: t[0] + 1)(circle()),
    "result": lambda: sm.jit(lambda x: circle())(sm.ones(2)),
    "grad": lambda: sm.grad(lambda t: t[0].sum())(circle()),
    "vmap": lambda: sm.vmap(lambda t: t[0])(circle()),
    "scan": lambda: sm.scan(lambda carry, x: (carry, x), circle(), sm.ones(3)),
    "optimizer": lambda: sm.optim.SGD(0.1).init(circle()),
    "save": lambda: sm.save(circle(), "never written"),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_a_tree_that_contains_itself_is_refused(name: str) -> None:
    with pytest.raises(ArgumentError, match="contains itself") as caught:
        ENDLESS[name]()
    assert "Leave out the part that leads back" in str(caught.value)


def test_a_tree_that_is_too_deep_is_refused() -> None:
    deep: Any = sm.ones(2)
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ArgumentError, match="nested deeper"):
        sm.jit(lambda t: t)(deep)


def test_lists_that_contain_themselves_are_no_arrays() -> None:
    numbers: list[Any] = [1, 2]
    numbers.append(numbers)
    for value in (numbers, [sm.ones(2), numbers]):
        with pytest.raises(ArgumentError, match="asarray: a list contains itself"):
            sm.asarray(value)
