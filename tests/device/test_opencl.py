"""OpenCL as a device: memory, programs, the disk cache, timing, and what goes wrong."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import smelt as sm
from smelt import runtime
from smelt.config import configure
from smelt.device.memory import NOWHERE
from smelt.device.protocol import Launch, Listing
from smelt.errors import DeviceError, InternalError
from smelt.transform.explain import examine
from tests.device.helpers import holds_in_forked_child

ROOT = Path(__file__).resolve().parent.parent.parent

ADD = """
__kernel void add(__global char *m0, long f0, __global char *m1, long f1, long n) {
  __global float *to = (__global float *)(m0 + f0);
  __global const float *from = (__global const float *)(m1 + f1);
  to[get_global_id(0)] = from[get_global_id(0)] + (float)n;
}
"""


def test_without_pyopencl_the_error_says_what_to_install(tmp_path: Path) -> None:
    # A package of that name that cannot be imported stands in for one that is missing.
    (tmp_path / "pyopencl.py").write_text("raise ImportError")
    program = "import smelt as sm\ntry: sm.set_default_device('opencl')\nexcept sm.errors.DeviceError as e: print(e)"
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert "the device opencl needs pyopencl, which is not installed" in run.stdout
    assert "pip install pyopencl" in run.stdout


def test_an_unknown_device_is_refused() -> None:
    with pytest.raises(DeviceError, match="set_default_device: there is no device 'tpu'"):
        sm.set_default_device("tpu")
    with configure(device="tpu"), pytest.raises(DeviceError, match="SMELT_DEVICE: there is no device 'tpu'"):
        sm.asarray([1.0])


def test_the_default_is_the_processor() -> None:
    assert sm.get_default_device() == "cpu"
    assert sm.zeros(2).device == "cpu"


@pytest.mark.opencl
class TestOpenCL:
    def test_new_tensors_are_made_on_the_default_device(self) -> None:
        with configure(device="opencl"):
            x = sm.asarray([1.0, 2.0, 3.0])
            assert sm.get_default_device() == x.device == (x + 1).device == sm.zeros(2).device == "opencl"
        assert (x * 2).device == "opencl"
        assert (x * 2).tolist() == [2.0, 4.0, 6.0]

    def test_tensors_move_between_devices(self) -> None:
        x = sm.asarray([[1.0, 2.0], [3.0, 4.0]])
        y = x.to_device("opencl")
        assert (x.device, y.device) == ("cpu", "opencl")
        assert y.T.tolist() == [[1.0, 3.0], [2.0, 4.0]]
        assert y.to("cpu").device == "cpu" and y.to("cpu").tolist() == x.tolist()
        assert y.to_device("opencl") is y
        assert sm.full((2,), 7.0, device="opencl").device == "opencl"
        assert sm.asarray([1, 2], device="opencl").device == "opencl"

    def test_what_lies_in_main_memory_moves_to_the_other_device(self) -> None:
        x, y = sm.arange(4, dtype=sm.float32).to_device("opencl"), sm.asarray([1.0, 1.0, 1.0, 1.0])
        z = x + y
        assert z.device == "opencl" and z.tolist() == [1.0, 2.0, 3.0, 4.0]
        f = sm.jit(lambda a, b: a * b)
        assert f(x, y).device == f(y, x).device == "opencl"
        assert f(y, y).device == "cpu"
        assert f(x, 3).tolist() == [0.0, 3.0, 6.0, 9.0]

    def test_views_of_inputs_and_strided_arrays(self) -> None:
        array = np.arange(24, dtype=np.float32).reshape(4, 6)
        with configure(device="opencl"):
            x = sm.from_numpy(array[::-1, 1::2])
            assert np.array_equal(x.numpy(), array[::-1, 1::2])
            assert np.array_equal(x[1:, ::2].T.numpy(), array[::-1, 1::2][1:, ::2].T)
            assert np.array_equal((x[1:, ::2].T + 1).numpy(), array[::-1, 1::2][1:, ::2].T + 1)
            assert sm.zeros((0, 3)).numpy().shape == (0, 3) and sm.zeros((0, 3)).sum().tolist() == 0.0

    def test_only_what_is_looked_at_is_copied(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from smelt.device.opencl import open_context

        read, counted = open_context().read, list[int]()
        x = sm.asarray(np.arange(600, dtype=np.float32).reshape(20, 30), device="opencl") + 0
        x.numpy()
        monkeypatch.setattr(open_context(), "read", lambda at, into: (counted.append(into.nbytes), read(at, into)))
        assert (
            float(x[3, 7]) == 97.0 and x[5].flip(-1).tolist()[:2] == [179.0, 178.0] and x[2:4, ::3].T.shape == (10, 2)
        )
        assert np.array_equal(x[2:4, 1::3].T.numpy(), np.arange(600).reshape(20, 30)[2:4, 1::3].T)
        assert counted[0] == 4 and all(count <= 240 for count in counted)

    def test_memory_is_not_shared_with_another_device(self) -> None:
        array = np.ones(3, np.float32)
        with configure(device="opencl"):
            for function in (sm.asarray, sm.from_dlpack):
                with pytest.raises(sm.errors.SmeltError, match="without a copy"):
                    function(array, copy=False)
            assert sm.asarray(array, copy=True).device == "opencl"

    def test_jit_replays_and_donates(self) -> None:
        f = sm.jit(lambda x: x.exp().sum(-1), donate=0)
        with configure(device="opencl"):
            for k in range(3):
                x = sm.full((3, 50), float(k)).realize()
                assert np.allclose(f(x).numpy(), 50 * np.exp(k))
                with pytest.raises(sm.errors.DonatedError):
                    x.numpy()

    def test_random_numbers_are_those_of_the_processor(self) -> None:
        key = sm.random.key(5)
        bits = sm.random.bits((40,), key=key).tolist()
        with configure(device="opencl"):
            assert sm.random.bits((40,), key=sm.random.key(5)).tolist() == bits
            draw = sm.jit(lambda: sm.random.uniform((3,)))
            assert draw().tolist() != draw().tolist()

    @pytest.mark.parametrize("n", [1, 5, 64, 65, 200])
    def test_one_compilation_serves_every_size(self, n: int) -> None:
        size = sm.Dim("n", 1, 200)
        f = sm.jit(lambda x, w: ((x @ w).softmax(-1), x.cumsum(0), x.sum(0)), shapes=[(size, 40), (40, 33)])
        rng = np.random.default_rng(n)
        x, w = rng.standard_normal((n, 40), np.float32), rng.standard_normal((40, 33), np.float32)
        with configure(device="opencl"):
            got = [part.numpy() for part in f(sm.asarray(x), sm.asarray(w))]
        e = np.exp(x.astype(np.float64) @ w)
        expected = [e / e.sum(-1, keepdims=True), x.cumsum(0), x.sum(0)]
        assert all(np.allclose(a, b, 1e-3, 1e-4) for a, b in zip(got, expected, strict=True))

    def test_one_function_of_declared_shapes_serves_both_devices(self) -> None:
        double = sm.jit(lambda x: x * 2, shapes=[(sm.Dim("n", 1, 64),)])
        for device in ("opencl", "cpu", "opencl"):
            with configure(device=device):
                assert double(sm.asarray([1.0, 2.0])).tolist() == [2.0, 4.0]

    @pytest.mark.parametrize("reverse", [False, True])
    def test_loops_and_branches(self, reverse: bool) -> None:
        n = sm.Dim("n", 1, 16)
        rows = np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32)

        def program(x: sm.Tensor, m: sm.Tensor) -> tuple[sm.Tensor, ...]:
            last, sums = sm.scan(
                lambda c, v: (sm.cond(v[0] > 0, lambda c: c + v, lambda c: c * 0.5, c), c.sum()), x, m, reverse=reverse
            )
            grown = sm.while_loop(lambda s: s.sum() < 100, lambda s: s * 2, sm.abs(last) + 1)
            return last, sums, grown, sm.fori_loop(0, 5, lambda i, s: (s[1], s[0] + i), (grown, last))[0]

        results = []
        for device in ("cpu", "opencl"):
            with configure(device=device):
                for shapes in (None, [(n,), (7, n)], [(4,), (n, 4)]):
                    found = sm.jit(program, shapes=shapes)(sm.asarray(rows[0]), sm.asarray(rows))
                    results.append([value.numpy() for value in found])
        for result in results[1:]:
            for a, b in zip(result, results[0], strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-5)

    def test_an_index_out_of_range_is_reported(self) -> None:
        with configure(device="opencl"), pytest.raises(sm.errors.IndexRangeError):
            sm.arange(5)[sm.asarray([1, 7])].numpy()

    def test_launches_are_timed_by_the_device(self) -> None:
        with configure(device="opencl"):
            x = sm.ones((64, 64)).realize()
            explanation = examine(lambda a: (a @ a).softmax(-1), x)
        assert explanation.launch_seconds is not None
        assert len(explanation.launch_seconds) == len(explanation.kernels)
        assert all(seconds > 0 for seconds in explanation.launch_seconds)
        assert " ms  " in str(explanation) and "__kernel" in explanation.source
        assert examine(lambda a: a + 1, sm.ones(3).realize()).launch_seconds is not None  # on the processor

    def test_contractions_and_rows_use_the_memory_of_a_group(self) -> None:
        with configure(device="opencl"):
            x = sm.ones((64, 64)).realize()
            product = examine(lambda a: a @ a, x)
            rows = examine(lambda a: a.softmax(-1), x)
        assert "stage A" in product.kernels[0].schedule and "barrier" in product.kernels[0].ir
        assert "__local f32 s" in product.source and "GROUP_BARRIER" in product.source
        assert "thread" in rows.kernels[0].schedule and "__local f32 w_f32" in rows.source

    def test_programs_come_from_the_disk_cache(self, tmp_path: Path) -> None:
        from smelt.device import opencl_build

        device = runtime.device("opencl")
        with configure(cache_dir=str(tmp_path)):
            (first,) = device.build([ADD])
            opencl_build._libraries.clear()
            again = device.stored([first.key])
            assert again is not None and again[0] is not first
            opencl_build._libraries.clear()
            assert device.stored(["0" * 64]) is None
        launch = Launch(0, "add", "d0 // 2", 0, 1, 1, (0, 1), (0,))
        x, y = device.upload(np.arange(6, dtype=np.float32)), device.upload(np.zeros(6, np.float32))
        program = device.load(Listing([launch], [(1, 0), (2, 4)]), again)
        program.run(NOWHERE + y.pointer + x.pointer, struct.pack("q", 6))
        assert y.view(np.dtype(np.float32), (6,)).tolist() == [7.0, 8.0, 9.0, 0.0, 0.0, 0.0]
        assert program.launch_seconds() is not None

    def test_refused_source_is_kept(self, tmp_path: Path) -> None:
        with (
            configure(cache_dir=str(tmp_path)),
            pytest.raises(InternalError, match="the OpenCL compiler refused generated code"),
        ):
            runtime.device("opencl").build(["__kernel void broken( {"])
        assert list(tmp_path.glob("failed/*.cl"))

    def test_a_forked_child_is_told_to_start_anew(self) -> None:
        with configure(device="opencl"):
            sm.ones(2).realize()

            def refused() -> bool:
                try:
                    sm.asarray([1.0])
                except DeviceError as error:
                    return "forked" in str(error)
                return False

            assert holds_in_forked_child(refused)
