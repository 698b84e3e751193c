"""The devices that tests run on; those of OpenCL are skipped where pyopencl is not installed."""

from __future__ import annotations

import pytest

DEVICES = ["cpu", pytest.param("opencl", marks=pytest.mark.opencl)]
