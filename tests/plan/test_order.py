"""The order of launches: right, and easy on memory."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from smelt.plan.order import Step, reordered


def _step(reads: str, writes: str) -> Step:
    return Step(frozenset(reads), frozenset(writes))


def _peak(steps: Sequence[Step], order: Sequence[int], sizes: dict[str, int]) -> int:
    touched = [steps[k].reads | steps[k].writes for k in order]
    spans = {}
    for at, values in enumerate(touched):
        for value in values:
            first, _ = spans.get(value, (at, at))
            spans[value] = (first, at)
    return max(
        sum(sizes.get(str(value), 0) for value, (first, last) in spans.items() if first <= at <= last)
        for at in range(len(order))
    )


def test_updates_do_not_wait_for_the_end_of_the_way_back() -> None:
    # a, b, c: activations; x, y, z: cotangents; 1, 2, 3: results that are outside the plan.
    steps = [
        *(_step("", "a"), _step("a", "b"), _step("b", "c"), _step("c", "z"), _step("z", "y"), _step("y", "x")),
        *(_step("ax", "1"), _step("by", "2"), _step("cz", "3")),
    ]
    sizes = dict.fromkeys("abcxyz", 10)
    order = reordered(steps, sizes)
    assert order.index(8) < order.index(5)
    assert _peak(steps, order, sizes) < _peak(steps, range(9), sizes)


@given(st.lists(st.tuples(st.sets(st.integers(0, 9), max_size=3), st.sets(st.integers(0, 9), max_size=2)), max_size=20))
def test_every_order_keeps_what_depends_on_what(drawn: list[tuple[set[int], set[int]]]) -> None:
    steps = [Step(frozenset(reads), frozenset(writes)) for reads, writes in drawn]
    order = reordered(steps, {value: 10 + value for value in range(10)})
    assert sorted(order) == list(range(len(steps)))

    def history(sequence: Sequence[int]) -> list[tuple[int, frozenset[tuple[int, int]]]]:
        """What each step finds: for every value, the steps that have written it."""
        written: dict[int, list[int]] = {}
        found = []
        for k in sequence:
            seen = {(int(v), j) for v in steps[k].reads | steps[k].writes for j in written.get(int(v), ())}  # type: ignore[call-overload]
            found.append((k, frozenset(seen)))
            for value in steps[k].writes:
                written.setdefault(int(value), []).append(k)  # type: ignore[call-overload]
        return sorted(found)

    assert history(order) == history(range(len(steps)))
