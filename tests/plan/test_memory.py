"""The memory plan: values alive at the same time never overlap, and the arena is near the least possible."""

from hypothesis import given
from hypothesis import strategies as st

from smelt.plan import Lifetime, assign
from smelt.plan.memory import ALIGNMENT

lifetimes = st.lists(
    st.tuples(st.integers(0, 5000), st.integers(0, 30), st.integers(0, 10)).map(
        lambda t: Lifetime(t[0], t[1], t[1] + t[2])
    ),
    max_size=40,
)


def rounded(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def peak(values: list[Lifetime]) -> int:
    """The most bytes alive at any launch: no plan needs less."""
    changes: dict[int, int] = {}
    for value in values:
        changes[value.first] = changes.get(value.first, 0) + rounded(value.nbytes)
        changes[value.last + 1] = changes.get(value.last + 1, 0) - rounded(value.nbytes)
    alive = most = 0
    for time in sorted(changes):
        alive += changes[time]
        most = max(most, alive)
    return most


def overlaps(values: list[Lifetime], offsets: list[int]) -> bool:
    for i, a in enumerate(values):
        for j, b in enumerate(values[:i]):
            apart_in_time = a.last < b.first or b.last < a.first
            apart_in_space = offsets[i] + a.nbytes <= offsets[j] or offsets[j] + b.nbytes <= offsets[i]
            if a.nbytes and b.nbytes and not apart_in_time and not apart_in_space:
                return True
    return False


@given(values=lifetimes)
def test_values_alive_together_never_overlap(values: list[Lifetime]) -> None:
    offsets, total = assign(values)
    assert not overlaps(values, offsets)
    assert total >= peak(values)
    assert all(offset % ALIGNMENT == 0 for offset in offsets)
    assert all(offset + value.nbytes <= total for offset, value in zip(offsets, values, strict=True))


def test_a_chain_needs_two_buffers() -> None:
    values = [Lifetime(1024, k, k + 1) for k in range(100)]
    assert assign(values)[1] == 2048 == peak(values)


def test_a_very_long_chain_needs_two_buffers_as_well() -> None:
    values = [Lifetime(1024, k, k + 1) for k in range(5000)]
    assert assign(values)[1] == 2048


def test_sizes_may_be_beyond_64_bits() -> None:
    huge = 1 << 80
    assert assign([Lifetime(huge, 0, 1), Lifetime(64, 3, 3), Lifetime(huge, 1, 2)]) == ([0, 0, huge], 2 * huge)
    # Each has 64 bits, and both together have not.
    assert assign([Lifetime(1 << 62, 0, 1), Lifetime(1 << 62, 1, 2)]) == ([0, 1 << 62], 1 << 63)


def test_nothing_needs_nothing() -> None:
    assert assign([]) == ([], 0)
    assert peak([]) == 0
