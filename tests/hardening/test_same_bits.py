"""The same program gives the same bits, whoever runs it, however often, with however many threads."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hardening.processes import says
from tests.turns import TEST_ALL

# A network of several kinds of kernels, trained; then what is sorted, scanned, scattered and drawn.
PROGRAM = """
import hashlib
import numpy as np
import smelt as sm
from smelt.device.toolchain import compile_count

class Net(sm.nn.Module):
    def __init__(self):
        self.first, self.norm = sm.nn.Conv2d(1, 4, 3), sm.nn.BatchNorm2d(4)
        self.drop, self.last = sm.nn.Dropout(0.3), sm.nn.Linear(4 * 6 * 6, 10)

    def __call__(self, x):
        hidden = self.norm(self.first(x)).relu().reshape((x.shape[0], -1))
        return self.last(self.drop(hidden))

sm.random.seed(3)
rng = np.random.default_rng(3)
x, y = sm.asarray(rng.standard_normal((300, 1, 8, 8), dtype=np.float32)), sm.asarray(rng.integers(0, 10, 300))
model, opt = Net(), sm.optim.AdamW(lr=1e-2)
state = opt.init(model)

@sm.jit
def step(model, state):
    loss, grads = sm.value_and_grad(lambda m: sm.nn.losses.cross_entropy(m(x), y))(model)
    return *opt.update(model, grads, state), loss

for _ in range(3):
    model, state, loss = step(model, state)
wide = sm.asarray(rng.standard_normal((70_000,), dtype=np.float32))
found = [loss, *model.state_dict().values(), wide.sum(), wide.sort(), wide.cumsum(0), (wide * wide).mean(),
         sm.random.normal((1000,)), sm.attention(*[wide[:6000].reshape((2, 30, 100))] * 3)]
digest = hashlib.sha256()
for tensor in found:
    digest.update(tensor.numpy().tobytes())
print(digest.hexdigest(), compile_count())
"""


# What was read of texts, with arguments that do not matter.
IMPORTED = """
import hashlib
from pathlib import Path
import numpy as np
import smelt as sm
from smelt.device.toolchain import compile_count

rng, digest = np.random.default_rng(5), hashlib.sha256()
for path in sorted(Path("tests/formats/texts").glob("[!l]*.mlir")):  # linalg.mlir is of another dialect
    program = sm.stablehlo.load(path.read_text())
    types = [(one.shape, one.dtype.numpy) for one in program.signature.arguments]
    arguments = [sm.asarray((2 * rng.standard_normal(shape)).astype(dtype)) for shape, dtype in types]
    for result in sm.tree.flatten(sm.jit(program)(*arguments))[0]:
        digest.update(result.numpy().tobytes())
print(digest.hexdigest(), compile_count())
"""
SETTINGS = [("1", "0"), ("1", "0"), ("2", "1"), ("5", "random")]
MORE = [(threads, str(seed)) for threads in ("1", "2") for seed in range(10)] if TEST_ALL else []


@pytest.mark.parametrize("program", [PROGRAM, IMPORTED], ids=["trained", "imported"])
@pytest.mark.by_turns(3)
def test_runs_threads_and_hash_seeds_change_no_bit(program: str, tmp_path: Path) -> None:
    """Nor the generated code: where a first process has compiled, the others find all of it in the cache."""
    said = [
        says(program, tmp_path / "cache", SMELT_THREADS=threads, PYTHONHASHSEED=seed).split()
        for threads, seed in SETTINGS + MORE
    ]
    digests, compiled = zip(*said, strict=True)
    assert set(digests) == {digests[0]}
    assert int(compiled[0]) > 0
    assert set(compiled[1:]) == {"0"}
