"""Making values: each expression on demand, once per scope that needs it.

A value without tile parts is made in the outermost scope where its axes are open and its operands have been made. A
tile is made where it is used: holding it over a loop would cost registers. Reductions are made beforehand (see
`lower_reduce`).
"""

from __future__ import annotations

from smelt.dtypes import Scalar, bool_, compute_dtype
from smelt.errors import InternalError
from smelt.graph.index import Index, Variable, less, of
from smelt.kernel.ir import Compute, Load, Part, Store, Value
from smelt.kernel.lower_scope import Binding, Builder, Reload
from smelt.kernel.region import Buffer, Expression, Less, Mask


class Values(Builder):
    """Expressions to statements."""

    def find(self, e: Expression) -> tuple[Value, int] | None:
        """The value of an expression for the present bindings, and the depth of the scope that made it."""
        top = self.scopes[-1]
        found = top.memo.get(e)
        if found is not None:
            return found
        axes = self.facts.axes(e)
        for at in range(len(self.scopes) - 2, -1, -1):
            scope = self.scopes[at]
            found = scope.memo.get(e)
            if found is not None and all(scope.bindings.get(a) is top.bindings.get(a) for a in axes):
                top.memo[e] = found
                return found
        return None

    def value(self, root: Expression) -> Value:
        """The value of an expression whose reductions are finished."""
        stack = [root]
        while stack:
            e = stack[-1]
            if self.find(e) is not None or self._reload(e):
                stack.pop()
                continue
            if e.op in ("reduce", "scan"):
                raise InternalError(f"a {e.op} was not finished before its value was asked for")
            missing = [a for a in e.arguments if self.find(a) is None]
            if missing:
                stack.extend(reversed(missing))
                continue
            self._make(e)
            stack.pop()
        found = self.find(root)
        assert found is not None
        return found[0]

    def available(self, e: Expression) -> bool:
        """True if a value need not be computed: it has been made, or lies in memory."""
        return self.find(e) is not None or self.find_reload(e) is not None

    def _make(self, e: Expression) -> None:
        match e.op:
            case "load":
                self._load(e)
            case "index":
                (index,) = self._substituted((e.attribute,))
                self._compute(e, self.parts(self.facts.axes(e), index.variables()), (), index)
            case "mask":
                mask = self._mask(e.attribute)
                parts = self.parts(self.facts.axes(e), _variables((), mask))
                self._compute(e, parts, (), mask or True, op="mask" if mask else "const")
            case _:
                found = [self.find(a) for a in e.arguments]
                values = tuple(pair[0] for pair in found if pair is not None)
                deepest = max((pair[1] for pair in found if pair is not None), default=0)
                self._compute(e, self.joined(values), values, e.attribute, deepest)

    def _compute(
        self,
        e: Expression,
        parts: tuple[Part, ...],
        values: tuple[Value, ...],
        attribute: object,
        deepest: int = 0,
        op: str = "",
    ) -> None:
        depth = 0 if e.op == "const" else self._placement(e, deepest)
        value = Value(self.fresh("v"), e.dtype, parts)
        self.emit(Compute(value, op or e.op, values, attribute), depth)
        self._remember(e, value, depth)

    def _load(self, e: Expression) -> None:
        access, axes = e.attribute, self.facts.axes(e)
        chosen = [pair for pair in (self.find(a) for a in e.arguments) if pair is not None]
        names = [Variable(self.fresh("h"), pick.first, pick.last) for pick in access.picks]
        values = {**self.top.substitution, **{old: of(new) for old, new in zip(access.picks, names, strict=True)}}
        index = tuple(i.substitute(values) for i in access.index)
        mask = self._mask(access.mask) + self.conditions(axes)
        used = _variables(index, mask) | {part.variable for value, _ in chosen for part in value.parts}
        depth = self._placement(e, max((at for _, at in chosen), default=0))
        value = Value(self.fresh("v"), e.dtype, self.parts(axes, used))
        picks = tuple(zip(names, (value for value, _ in chosen), strict=True))
        self.emit(Load(value, access.buffer, index, mask, picks), depth)
        self._remember(e, value, depth)

    def _placement(self, e: Expression, deepest: int) -> int:
        """The depth of the scope in which a value is made."""
        bindings = self.top.bindings
        if any(bindings[axis].parts for axis in self.facts.axes(e)):
            return len(self.scopes) - 1
        return max(self.depth(e), deepest, self.floor())

    def _remember(self, e: Expression, value: Value, depth: int) -> None:
        self.scopes[depth].memo[e] = (value, depth)
        self.top.memo[e] = (value, depth)

    def _substituted(self, index: tuple[Index, ...]) -> tuple[Index, ...]:
        return tuple(i.substitute(self.top.substitution) for i in index)

    def _mask(self, mask: Mask) -> Mask:
        """The conditions for the present bindings, without those that always hold."""
        values = self.top.substitution
        conditions = [Less(c.a.substitute(values), c.b.substitute(values)) for c in mask]
        return tuple(c for c in conditions if not less(c.a, c.b))

    # --- nodes that lie in memory

    def find_reload(self, e: Expression) -> tuple[Reload, int] | None:
        """Where a node lies in memory for the present bindings."""
        if not self.plan.uses_memory:
            return None
        for at in range(len(self.scopes) - 1, -1, -1):
            reload = self.scopes[at].reloads.get(e)
            if reload is not None and self.is_valid(reload):
                return reload, at
        return None

    def is_stored(self, e: Expression) -> bool:
        """True if a node lies in memory, as far as the axes that are open now can tell."""
        bindings = self.top.bindings
        for scope in self.scopes:
            reload = scope.reloads.get(e)
            if reload is not None and all(
                not isinstance(token, Binding) or bindings.get(axis, token) is token for axis, token in reload.tokens
            ):
                return True
        return False

    def is_valid(self, reload: Reload) -> bool:
        bindings = self.top.bindings
        for axis, token in reload.tokens:
            binding = bindings.get(axis)
            if binding is None:
                return False
            if isinstance(token, Binding):
                if binding is not token:
                    return False
            elif token is not None and not binding.within(token):
                return False
        return True

    def _reload(self, e: Expression) -> bool:
        found = self.find_reload(e)
        if found is None:
            return False
        reload, depth = found
        self.check_reload(e, reload)
        index = self.reload_index(reload)
        axes = self.facts.axes(e)
        mask = self.conditions(axes) if reload.masked else ()
        depth = self._placement(e, depth)
        value = Value(self.fresh("v"), e.dtype, self.parts(axes, _variables(index, mask)))
        self.emit(Load(value, reload.buffer, index, mask), depth)
        self._remember(e, value, depth)
        return True

    def reload_index(self, reload: Reload) -> tuple[Index, ...]:
        """Where the elements of the present tile lie."""
        top = self.top
        values = {axis: top.bindings[axis].index - reload.bases[axis] for axis, _ in reload.tokens}
        index = tuple(i.substitute(values) for i in reload.index)
        # Only now: a tile may reach past the end of its axis, so what is true of the axis may not be of the tile.
        return tuple(cut_index(i, *cut) for i, cut in zip(index, reload.cuts, strict=True)) if reload.cuts else index

    def check_reload(self, e: Expression, reload: Reload) -> None:
        """A hook for places that later stores may overwrite."""

    # --- small values

    def scalar(self, op: str, template: Value, attribute: object) -> Value:
        """A constant of the template's type, in the present scope."""
        value = Value(self.fresh("v"), template.dtype)
        self.emit(Compute(value, op, (), attribute))
        return value

    def computed(self, op: str, *arguments: Value, like: Value | None = None) -> Value:
        """An elementwise operation in the present scope; the type is that of `like`, or of the first argument."""
        value = Value(self.fresh("v"), (like or arguments[0]).dtype, self.joined(arguments))
        self.emit(Compute(value, op, arguments))
        return value

    def compared(self, op: str, a: Value, b: Value) -> Value:
        """A comparison in the present scope."""
        value = Value(self.fresh("v"), bool_, self.joined((a, b)))
        self.emit(Compute(value, op, (a, b)))
        return value

    def condition(self, mask: Mask, axes: tuple[Variable, ...]) -> Value:
        """Conditions as a boolean tile."""
        value = Value(self.fresh("v"), bool_, self.parts(axes, _variables((), mask)))
        self.emit(Compute(value, "mask", (), mask))
        return value

    def guarded(self, value: Value, axes: tuple[Variable, ...], neutral: Scalar) -> Value:
        """The value, with a neutral element instead where its tile reaches past the end of these axes."""
        mask = self.conditions(axes)
        if not mask:
            return value
        inside = self.condition(mask, axes)
        other = self.scalar("const", value, neutral)
        return self.computed("where", inside, value, other, like=value)

    def spread(self, value: Value, parts: tuple[Part, ...]) -> Value:
        """The value with at least these parts: repeated along those that it lacks."""
        have = {part.name for part in value.parts}
        if all(part.name in have for part in parts):
            return value
        lacking = [part for part in parts if part.name not in have]
        together = self.sorted_parts(sorted([*value.parts, *lacking], key=self.part_order))
        wide = Value(self.fresh("v"), value.dtype, together)
        self.emit(Compute(wide, "copy", (value,)))
        return wide

    def store(self, buffer: Buffer, index: tuple[Index, ...], value: Value, mask: Mask, stream: bool = False) -> None:
        """Store a tile, repeated along the parts that the index has and the value lacks."""
        if value.dtype is not compute_dtype(buffer.dtype):
            raise InternalError(f"{value.dtype} is stored to {buffer.name}, which holds {buffer.dtype}")
        used = _variables(index, mask)
        axes = tuple(axis for axis in self.region.axes if axis in self.top.bindings)
        parts = tuple(part for axis in axes for part in self.top.bindings[axis].parts if part.variable in used)
        self.emit(Store(buffer, index, self.spread(value, parts), mask, stream))


def cut_index(index: Index, op: str, block: int) -> Index:
    """The block that an element lies in, its place there, or the element itself."""
    return {"": index, "/": index // block, "%": index % block}[op]


def _variables(index: tuple[Index, ...], mask: Mask) -> set[Variable]:
    used: set[Variable] = set()
    for i in index:
        used |= i.variables()
    for condition in mask:
        used |= condition.a.variables() | condition.b.variables()
    return used
