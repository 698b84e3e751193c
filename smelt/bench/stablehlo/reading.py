"""How long reading takes, in a process of its own: `python -m smelt.bench.stablehlo.reading LAYERS|constant`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import smelt as sm
from smelt.bench.cpu.memory import Resident
from smelt.bench.stablehlo.cases import GPT2
from smelt.formats import mlir

CONSTANT = 100_000_000  # characters


def text_of_training(layers: int) -> str:
    """What JAX prints for the loss of a transformer with its gradients."""
    import jax
    import numpy as np

    from smelt.bench.train.cases import gpt_weights
    from smelt.bench.train.in_jax import gpt, loss

    size = replace(GPT2, layers=layers, width=48, vocabulary=101)
    weights = {name: jax.ShapeDtypeStruct(x.shape, x.dtype) for name, x in gpt_weights(size).items()}
    tokens = jax.ShapeDtypeStruct((2, size.length), np.int32)
    return str(jax.jit(jax.value_and_grad(loss(gpt(size)))).lower(weights, tokens, tokens).as_text())


def _best(function: Callable[[], Any]) -> float:
    times = []
    for _ in range(3):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return min(times)


def measure_training(layers: int) -> dict[str, float]:
    """Seconds to parse, and those to make nodes of it."""
    text = text_of_training(layers)
    parsed = _best(lambda: mlir.parse(text))
    both = _best(lambda: sm.stablehlo.load(text).check())
    count = sum(line.lstrip().startswith("%") for line in text.splitlines())
    return {"operations": count, "characters": len(text), "parse": parsed, "nodes": both - parsed}


def measure_constant() -> dict[str, float]:
    """Seconds for a module that is one large constant, and its peak memory beyond the text, as a multiple of that."""
    count = CONSTANT // 8
    kind = f"tensor<{count}xf32>"
    text = (
        f"func.func @main() -> {kind} {{\n"
        f'  %0 = stablehlo.constant dense<"0x{"0000803F" * count}"> : {kind}\n  return %0 : {kind}\n}}'
    )
    sm.stablehlo.load("func.func @main() { return }").check()  # what is imported then
    resident, began = Resident(), time.perf_counter()
    sm.stablehlo.load(text).check()
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "memory": (resident.most() or 0) / CONSTANT}


if __name__ == "__main__":
    print(json.dumps(measure_constant() if sys.argv[1] == "constant" else measure_training(int(sys.argv[1]))))
