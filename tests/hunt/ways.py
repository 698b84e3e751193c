"""The ways in which users run a program: each gives what NumPy gives, also when called again with other values."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import smelt as sm
from smelt.errors import SmeltError
from tests.hunt.programs import Array, Program, Unfit, Value, disagreement, made, native
from tests.hunt.slopes import loss_of, places, slope_of, wrong_slopes
from tests.hunt.spaces import FLOATS, SMELT, torch_space

Way = Callable[[Program, list[list[Array]]], list[list[Any]]]  # the results for each of several draws of the inputs


def _tensors(arrays: Sequence[Array]) -> list[Any]:
    return [sm.asarray(array) for array in arrays]


def _stacked(draws: list[list[Array]]) -> list[Any]:
    return [sm.asarray(np.stack(column)) for column in zip(*draws, strict=True)]


def _taken_apart(results: Sequence[Any], count: int) -> list[list[Any]]:
    return [[result[k] for result in results] for k in range(count)]


def plain(program: Program, draws: list[list[Array]]) -> list[list[Any]]:
    return [program.results(SMELT, _tensors(arrays)) for arrays in draws]


def views(program: Program, draws: list[list[Array]]) -> list[list[Any]]:
    """Inputs that lie in memory in another order."""
    turned = [[sm.from_numpy(np.asfortranarray(np.repeat(a[..., None], 2, -1))[..., 1]) for a in d] for d in draws]
    return [program.results(SMELT, tensors) for tensors in turned]


def backwards(program: Program, draws: list[list[Array]]) -> list[list[Any]]:
    """Inputs that are views of tensors, in a compiled function."""
    f = sm.jit(lambda *inputs: program.results(SMELT, [sm.flip(x) for x in inputs]))
    return [f(*[sm.from_numpy(np.asarray(np.flip(array))) for array in arrays]) for arrays in draws]


def compiled(program: Program, draws: list[list[Array]]) -> list[list[Any]]:
    f = sm.jit(lambda *inputs: program.results(SMELT, inputs))
    return [f(*_tensors(arrays)) for arrays in draws]


def arrays_as_arguments(program: Program, draws: list[list[Array]]) -> list[list[Any]]:
    f = sm.jit(lambda inputs: program.results(SMELT, inputs))
    return [f(arrays) for arrays in draws]


def torch_as_arguments(program: Program, draws: list[list[Array]]) -> list[list[Any]]:
    """The same tensors of torch's at every call, changed in place."""
    xp = torch_space()
    if xp is None:
        return arrays_as_arguments(program, draws)

    def of_torch(array: Array) -> Any:
        if str(array.dtype) == "bfloat16":
            return xp.torch.from_numpy(np.array(array).view(np.int16)).view(xp.torch.bfloat16)
        return xp.torch.from_numpy(np.array(array))

    f, held, found = sm.jit(lambda inputs: program.results(SMELT, inputs)), [of_torch(a) for a in draws[0]], []
    for arrays in draws:
        for tensor, array in zip(held, arrays, strict=True):
            tensor.copy_(of_torch(array))
        found.append([x.numpy() for x in f(held)])
    return found


def donated(program: Program, draws: list[list[Array]]) -> list[list[Any]]:
    f = sm.jit(lambda inputs, k: (program.results(SMELT, inputs), k + 1), donate=0)
    return [f(_tensors(arrays), k)[0] for k, arrays in enumerate(draws)]


def through_an_object(program: Program, draws: list[list[Array]]) -> list[list[Any]]:
    class Holder:
        inputs: list[Any]

        @sm.jit
        def run(self) -> Any:
            return program.results(SMELT, self.inputs)

    holder, found = Holder(), []
    for arrays in draws:
        holder.inputs = _tensors(arrays)
        found.append(holder.run())
    return found


def batched(program: Program, draws: list[list[Array]]) -> list[list[Any]]:
    results = sm.vmap(lambda *inputs: program.results(SMELT, inputs))(*_stacked(draws))
    return _taken_apart(results, len(draws))


def branched(program: Program, draws: list[list[Array]]) -> list[list[Any]]:
    def run(flag: Any, inputs: list[Any]) -> Any:
        def other(inputs: list[Any]) -> list[Any]:
            return [sm.where(True, x, x) for x in program.results(SMELT, inputs)]

        return sm.cond(flag, lambda i: program.results(SMELT, i), other, inputs)

    f = sm.jit(run)
    return [f(sm.asarray(k % 2 == 0), _tensors(arrays)) for k, arrays in enumerate(draws)]


def looped(program: Program, draws: list[list[Array]]) -> list[list[Any]]:
    _, results = sm.scan(lambda state, inputs: (state, program.results(SMELT, inputs)), sm.asarray(0), _stacked(draws))
    return _taken_apart(results, len(draws))


def dynamic(program: Program, draws: list[list[Array]]) -> list[list[Any]]:
    """Draws of several sizes."""
    f = sm.jit(lambda *inputs: program.results(SMELT, inputs), dynamic=True)
    return [f(*_tensors(arrays)) for arrays in draws]


WAYS: dict[str, Way] = {
    way.__name__: way
    for way in (
        *(plain, views, backwards, compiled, arrays_as_arguments, torch_as_arguments, donated, through_an_object),
        *(batched, branched, looped, dynamic),
    )
}

# --- ways of differentiating: the slopes by the float inputs, for each draw


def gradient(program: Program, draws: list[list[Array]]) -> list[list[Any]]:
    at = tuple(range(len(places(program))))
    return [
        list(sm.grad(loss_of(program, _tensors(arrays)), argnums=at)(*_tensors([arrays[k] for k in places(program)])))
        for arrays in draws
    ]


def _gradient_of_all(
    program: Program, change: Callable[[Any], Any] = lambda f: f, loss_of: Callable[..., Any] = loss_of
) -> Callable[..., Any]:
    """The slopes as a function of all inputs."""
    at = tuple(range(len(places(program))))

    def slopes(*inputs: Any) -> Any:
        floats = [inputs[k] for k in places(program)]
        return list(sm.grad(change(loss_of(program, inputs)), argnums=at)(*floats))

    return slopes


def compiled_gradient(program: Program, draws: list[list[Array]]) -> list[list[Any]]:
    f = sm.jit(_gradient_of_all(program))
    return [f(*_tensors(arrays)) for arrays in draws]


def checkpointed_gradient(program: Program, draws: list[list[Array]]) -> list[list[Any]]:
    f = sm.jit(_gradient_of_all(program, sm.checkpoint))
    return [f(*_tensors(arrays)) for arrays in draws]


def second_gradient(program: Program, draws: list[list[Array]]) -> list[list[Any]]:
    f = sm.jit(_gradient_of_all(program, loss_of=slope_of))
    return [f(*_tensors(arrays)) for arrays in draws]


def batched_gradient(program: Program, draws: list[list[Array]]) -> list[list[Any]]:
    return _taken_apart(sm.vmap(_gradient_of_all(program))(*_stacked(draws)), len(draws))


def gradient_of_a_loop(program: Program, draws: list[list[Array]]) -> list[list[Any]]:
    """Through a scan over the draws, whose losses are summed."""
    at, stacked = places(program), _stacked(draws)

    def total(*floats: Any) -> Any:
        rows = list(stacked)
        for k, x in zip(at, floats, strict=True):
            rows[k] = x

        def step(state: Any, inputs: list[Any]) -> Any:
            return state + loss_of(program, inputs)(*[inputs[k] for k in at]), sm.asarray(0)

        return sm.scan(step, sm.asarray(0.0, dtype=sm.float64), rows)[0]

    slopes = sm.grad(total, argnums=tuple(range(len(at))))(*[stacked[k] for k in at])
    return _taken_apart(slopes, len(draws))


def forward(program: Program, draws: list[list[Array]]) -> list[list[Any]]:
    """All slopes from tangents: one direction for every element of an input, as a batch."""

    def slope(floats: list[Any], loss: Callable[..., Any], number: int) -> Any:
        def along(direction: Any) -> Any:
            ways = [direction if k == number else sm.zeros_like(y) for k, y in enumerate(floats)]
            return sm.jvp(loss, tuple(floats), tuple(ways))[1]

        x, size = floats[number], int(np.prod(floats[number].shape))
        directions = sm.astype(sm.reshape(sm.eye(size), (size, *x.shape)), x.dtype)
        return sm.astype(sm.reshape(sm.vmap(along)(directions), x.shape), x.dtype) if size else sm.zeros_like(x)

    found = []
    for arrays in draws:
        floats, loss = _tensors([arrays[k] for k in places(program)]), loss_of(program, _tensors(arrays))
        found.append([slope(floats, loss, number) for number in range(len(floats))])
    return found


SLOPES: dict[str, Way] = {
    way.__name__: way
    for way in (
        *(
            gradient,
            compiled_gradient,
            checkpointed_gradient,
            batched_gradient,
            gradient_of_a_loop,
            forward,
            second_gradient,
        ),
    )
}
ALL = (*WAYS, *SLOPES)
# A refusal by a typed error is no wrong answer: what these ways cannot do, they say.
_MAY_REFUSE = frozenset({"branched", "looped", "batched", "dynamic", "batched_gradient", "gradient_of_a_loop"})


def program_for(seed: int) -> tuple[Program, str]:
    """The program of a seed, and the way in which it is run."""
    way = ALL[seed % len(ALL)]
    return made(seed, slopes=way in SLOPES), way


def _draws(program: Program, way: str) -> tuple[list[list[Value]], list[list[Value]]]:
    """Inputs, and what NumPy says of them: those that the program was made with, and others that it fits."""
    programs = [program] * 4
    if way == "dynamic":
        sizes = sorted({n for _, shape, _ in program.inputs for n in shape if n > 1})
        old = sizes[program.seed % len(sizes)] if sizes else 0
        programs = [program, *(program.resized(old, new) for new in (old + 1, 2, 2 * old, 1, 4))]
    inputs, expected = [], []
    for draw, one in enumerate(programs):
        values = one.values(draw)
        try:
            expected.append(one.expected(values))
        except Unfit:
            continue
        inputs.append(values)
        if len(inputs) == (4 if way == "dynamic" else 2):
            break
    return inputs, expected


def difference(program: Program, way: str) -> str | None:
    """What is wrong with a way of running a program; None if nothing is."""
    inputs, expected = _draws(program, way)
    if not inputs or (way in SLOPES and not places(program)):
        return None
    try:
        found = (WAYS | SLOPES)[way](program, [[native(v) for v in values] for values in inputs])
        got = [[x if isinstance(x, np.ndarray) else x.numpy() for x in results] for results in found]
    except SmeltError as error:
        return None if way in _MAY_REFUSE or program.eager else f"{type(error).__name__}: {error}"
    except Exception as error:  # whatever a program does to smelt is a finding
        return "".join(traceback.format_exception(error))
    for k, values in enumerate(inputs):
        if way in SLOPES:
            wrong = wrong_slopes(program, values, got[k], second=way == "second_gradient")
            if wrong:
                return f"draw {k}: {wrong}"
            continue
        for number, (a, b) in enumerate(zip(got[k], expected[k], strict=True)):
            wrong = disagreement(a, b)
            if wrong:
                return f"draw {k}, result {number}: {wrong}"
        wrong = _second_judge(program, values, expected[k])
        if wrong:
            return f"draw {k}: {wrong}"
    return None


def _second_judge(program: Program, inputs: Sequence[Value], expected: Sequence[Value]) -> str | None:
    """Where torch does not agree with NumPy, to whose answer ours is equal: one of the two judges is used wrongly.

    torch promotes integers in its own way, and is here asked for 64 bits; it has rules of its own for what is not
    finite.
    """
    xp = torch_space()
    trail = list(program.trail(inputs))
    if xp is None or any(v.dtype not in ("float64", "float32", "int64", "bool") for v in trail):
        return None
    if any(v.dtype in FLOATS and not np.isfinite(v.array).all() for v in trail):
        return None
    try:
        with warnings.catch_warnings(action="ignore"):
            results = program.results(xp, [xp.torch.from_numpy(np.array(v.array)) for v in inputs])
        found = [xp.torch.as_tensor(result).numpy() for result in results]
    except (RuntimeError, NotImplementedError, TypeError, ValueError, AttributeError, IndexError):
        return None
    for number, (array, value) in enumerate(zip(found, expected, strict=True)):
        if value.dtype in FLOATS or (array.dtype.kind in "iu" and value.dtype != "bool"):
            with np.errstate(all="ignore"):
                array = array.astype(value.dtype)  # torch promotes in its own ways
        wrong = disagreement(array, value)
        if wrong:
            return f"torch disagrees about result {number}: {wrong}"
    return None


def reduced(program: Program, way: str) -> Program:
    """The same fault with fewer steps."""
    smaller = True
    while smaller:
        smaller = False
        used = {k for step in program.steps for k in step.operands}
        for number in reversed(range(len(program.steps))):
            if len(program.inputs) + number in used or len(program.steps) == 1:
                continue
            shorter = program.without(number)
            if difference(shorter, way) is not None:
                program, smaller = shorter, True
                break
    return program
