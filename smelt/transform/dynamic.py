"""`jit(f, dynamic=True)`: sizes that change from call to call become dims by themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, ParamSpec, TypeVar

from smelt import runtime, tree
from smelt.errors import MemoryLimitError
from smelt.graph import Dim, found_sizes
from smelt.tensor import Tensor
from smelt.transform.jit import Jit

P = ParamSpec("P")
T = TypeVar("T")

_REMEMBERED: Final = 16  # calls that decide which sizes change, and which of them together
_LEAST_BOUND: Final = 512

Shapes = tuple[tuple[int, ...], ...]  # of all leaves


class Dynamic(Jit[P, T]):
    """A compiled function that turns sizes which change into dims, at the second call that differs in sizes only.

    Sizes of 0 and 1 are others: what broadcasts is no longer the same graph.
    """

    def __init__(
        self,
        function: Callable[P, T],
        static: Any = (),
        donate: int | str | Iterable[int | str] = (),
        contracts: str | None = None,
    ) -> None:
        super().__init__(function, static, donate, contracts=contracts)
        self._groups: dict[Any, _Group] = {}

    def __repr__(self) -> str:
        return super().__repr__().removesuffix(")") + ", dynamic=True)"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        if runtime.is_tracing() or runtime.is_transforming():
            return self.__wrapped__(*args, **kwargs)
        own_args, own_kwargs = self._taken(args, kwargs)
        function = self._function(own_args)
        if function is not self:
            try:
                with found_sizes():
                    return function(*own_args, **own_kwargs)
            except Exception as error:  # also those of other libraries that are given a dim
                # A function that needs to know its sizes, or whose memory for the largest ones is not there. If it is
                # something else, it happens again below.
                if function._entries and not isinstance(error, MemoryLimitError):
                    raise
                self._group(own_args)[0].is_static = True
        return super().__call__(*own_args, **own_kwargs)

    def _function(self, args: Any) -> Jit[P, T]:
        group, shapes = self._group(args)
        spec = group.spec(shapes)
        if spec is None:
            return self
        if spec not in group.functions:
            number, parts = 0, []
            for value in args:
                count = len(tree.flatten(value)[0])
                parts.append(list(spec[number : number + count]))
                number += count
            group.functions[spec] = Jit(self.__wrapped__, self._static, self._donate, parts, self._contracts)
        return group.functions[spec]  # type: ignore[no-any-return]

    def _group(self, args: Any) -> tuple[_Group, Shapes]:
        leaves, structure = tree.flatten(args)
        shapes = tuple([leaf.shape if type(leaf) is Tensor else () for leaf in leaves])
        return self._groups.setdefault((structure, tuple(map(len, shapes))), _Group()), shapes


def _bound(sizes: Iterable[int]) -> int:
    """The largest size to compile for: memory is planned for it, and a larger one is compiled anew."""
    return max(_LEAST_BOUND, 2 << max(sizes).bit_length())


class _Group:
    """Calls that differ in sizes only."""

    def __init__(self) -> None:
        self.seen: list[Shapes] = []
        self.functions: dict[Any, Any] = {}
        self.is_static = False

    def spec(self, shapes: Shapes) -> tuple[Any, ...] | None:
        """The declared shape of each leaf, with a dim for sizes that change; None if none does."""
        if shapes not in self.seen:
            self.seen = [*self.seen, shapes][-_REMEMBERED:]
        rows = [[size for shape in seen for size in shape] for seen in self.seen]
        columns = list(zip(*rows, strict=True))  # the sizes of one axis of one leaf, over all calls
        now = [size for shape in shapes for size in shape]
        changes = [len(set(column)) > 1 for column in columns]
        if self.is_static or not any(changes) or any(c and size < 2 for c, size in zip(changes, now, strict=True)):
            return None
        dims: dict[tuple[int, ...], Dim] = {}  # sizes that have always been equal are one dim
        sizes = iter(
            [
                dims.setdefault(column, Dim(f"n{len(dims)}", 2, _bound(column))) if changed else size
                for column, changed, size in zip(columns, changes, now, strict=True)
            ]
        )
        declared = [tuple([next(sizes) for _ in shape]) for shape in shapes]
        return tuple([s if any(isinstance(size, Dim) for size in s) else None for s in declared])
