"""Closed graphs: what becomes of stand-ins and of everything else, and the nodes that run bodies."""

from __future__ import annotations

import numpy as np
import pytest

from smelt.derive import custom
from smelt.dtypes import bool_, float32, int64
from smelt.errors import InternalError, ParseError
from smelt.graph import build
from smelt.graph.closed import close, open_body, parameter, values_of
from smelt.graph.index import Dim
from smelt.graph.interpret import interpret
from smelt.graph.node import Node, Shape, make
from smelt.graph.ops import Branch, Loop, Op
from smelt.graph.text import parse_graph, print_graph
from smelt.graph.verify import verify_graph, verify_node


def leaf(*shape: int, name: str = "") -> Node:
    return make(Op.LEAF, float32, shape, (), name or object())


def ops(roots: tuple[Node, ...] | list[Node]) -> list[str]:
    return [line.split()[2] for line in print_graph(roots).splitlines()[1:-1]]


def test_what_depends_on_no_stand_in_is_hoisted() -> None:
    x, w = leaf(4), leaf(4)
    outside = build.exp(build.add(w, w))
    closed = close([[build.mul(build.add(x, outside), outside)]], [x])
    assert closed.hoisted == (outside,)
    assert ops(closed.bodies[0]) == ["parameter", "parameter", "binary", "binary"]


def test_views_and_numbers_stay_inside() -> None:
    x, w = leaf(3, 4), leaf(4)
    spread = build.broadcast_to(build.reshape(w, (1, 4)), (3, 4))
    two = build.broadcast_to(build.const(2.0, float32), (3, 4))
    closed = close([[build.mul(build.add(x, spread), two)]], [x])
    assert closed.hoisted == (w,)
    assert "const" in ops(closed.bodies[0])


def test_parameters_are_numbered_with_the_hoisted_in_between() -> None:
    x, slice_, w = leaf(4), leaf(4), leaf(4)
    closed = close([[build.add(build.mul(x, w), slice_)]], [x, slice_], at=1)
    numbers = {node.attribute for node in closed.bodies[0][0].sources} | {
        node.attribute for node in closed.bodies[0][0].sources[0].sources
    }
    assert numbers == {"mul", 0, 1, 2}
    assert closed.bodies[0][0].sources[1] is parameter(2, float32, (4,))


def test_nothing_below_a_stand_in_is_hoisted() -> None:
    a, b = (custom.stand_in(float32, (3,)) for _ in range(2))  # aliases of one and the same parameter
    done = close([[build.add(a, b)]], [a, b])
    assert done.hoisted == ()
    assert done.bodies[0][0] is build.add(parameter(0, float32, (3,)), parameter(1, float32, (3,)))


def test_a_root_may_be_hoisted_itself() -> None:
    x, w = leaf(4), leaf(4)
    closed = close([[x, w, build.neg(w)]], [x])
    assert closed.bodies[0] == tuple(parameter(k, float32, (4,)) for k in range(3))
    assert closed.hoisted == (w, build.neg(w))


def test_opening_gives_back_what_was_closed() -> None:
    x, w = leaf(4), leaf(4)
    root = build.add(build.mul(x, build.exp(w)), x)
    closed = close([[root]], [x])
    assert open_body(closed.bodies[0], [x, *closed.hoisted]) == [root]


def doubling(length: int | None = 3, test: tuple[Node, ...] | None = None) -> Loop:
    state = parameter(0, float32, (4,))
    return Loop((build.add(state, state),), test, 1, 0, 0, length)


def test_equal_loops_are_one_node() -> None:
    x = leaf(4)
    assert values_of(doubling(), [x]) == values_of(doubling(), [x])
    assert values_of(doubling(), [x]) != values_of(doubling(4), [x])


def test_the_reference_runs_loops_and_branches() -> None:
    x = leaf(4)
    value = np.arange(4, dtype=np.float32)
    (eight,) = values_of(doubling(), [x])
    state = parameter(0, float32, (4,))
    (chosen,) = values_of(Branch((build.neg(state),), (state,)), [build.const(True, bool_), eight])
    np.testing.assert_array_equal(interpret([chosen], {x: value})[0], -8 * value)


def malformed() -> list[tuple[Loop | Branch, list[Node]]]:
    x, state, flag = leaf(4), parameter(0, float32, (4,)), parameter(0, bool_, ())
    double = doubling()
    return [
        (double, []),
        (double, [x, x]),
        (double, [leaf(3)]),
        (double._replace(length=-1), [x]),
        (double._replace(length=None), [x]),
        (double._replace(test=(flag,)), [x]),
        (double._replace(length=None, test=(flag,)), [x]),
        (double._replace(length=None, test=(state,)), [x]),
        (double._replace(body=(parameter(5, float32, (4,)),)), [x]),
        (double._replace(xs=1), [x, leaf(2, 4)]),
        (double._replace(xs=1), [x, leaf()]),
        (double._replace(states=2), [x]),
        (Branch((state,), (state,)), [x, x]),
        (Branch((state,), (build.cast(state, int64),)), [make(Op.LEAF, bool_, (), (), object()), x]),
        (Branch((state,), ()), [make(Op.LEAF, bool_, (), (), object()), x]),
    ]


@pytest.mark.parametrize(("attribute", "sources"), malformed())
def test_malformed_nodes_are_found(attribute: Loop | Branch, sources: list[Node]) -> None:
    op = Op.LOOP if isinstance(attribute, Loop) else Op.BRANCH
    with pytest.raises(InternalError):
        verify_node(make(op, float32, (4,), tuple(sources), attribute))


def test_only_items_read_several_values() -> None:
    node = values_of(doubling(), [leaf(4)])[0].sources[0]
    with pytest.raises(InternalError, match="read by ITEM"):
        verify_graph([make(Op.UNARY, float32, (4,), (node,), "exp")])
    with pytest.raises(InternalError, match="there is such a value"):
        verify_node(make(Op.ITEM, float32, (4,), (node,), 1))


def scanned(length: Dim | int, shape: Shape) -> list[Node]:
    state, row = parameter(0, float32, shape), parameter(1, float32, shape)
    attribute = Loop((build.add(state, row), build.mul(state, row)), None, 1, 0, 1, length, True)
    xs = make(Op.LEAF, float32, (length, *shape), (), "xs")
    return values_of(attribute, [make(Op.LEAF, float32, shape, (), "x"), xs])


def nested() -> list[Node]:
    state = parameter(0, float32, (4,))
    (inner,) = values_of(doubling(), [state])
    test = (build.lt(build.reduce("add", state, (0,)), build.const(9.5, float32)),)
    (outer,) = values_of(Loop((inner,), test, 1, 0, 0, None), [leaf(4)])
    flag = make(Op.LEAF, bool_, (), (), "flag")
    return values_of(Branch((state, state), (build.neg(state), state)), [flag, outer])


@pytest.mark.parametrize("roots", [scanned(5, (4,)), scanned(Dim("n", 1, 9), (2, 3)), nested()])
def test_text_goes_both_ways(roots: list[Node]) -> None:
    text = print_graph(roots)
    assert print_graph(parse_graph(text)) == text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  body\n", "  corpse\n"),
        ("states 1", "states 2"),
        ("length 5", "length -5"),
        (", length 5, reverse", ""),
        (", length 5, reverse", ", reverse, length 5"),
        ("parameter 0 :", "parameter 7 :"),
        ("    return %2 %3\n", ""),
        ("    return %2 %3\n", "    return %2\n"),
        ("item 1", "item 2"),
    ],
)
def test_text_that_is_no_loop_is_refused(old: str, new: str) -> None:
    text = print_graph(scanned(5, (4,)))
    assert old in text
    with pytest.raises(ParseError):
        parse_graph(text.replace(old, new))
