"""Kernel IR to source text.

Takes: kernels that `smelt.kernel` has lowered and verified. Gives: the text of one C translation unit (`render`), in
another dialect where that is asked for (`OPENCL`), and how many bytes of workspace a thread needs to run a kernel
(`workspace_bytes`). What always holds: the text is a pure function of the kernels, includes no file, contains no name
from outside but the kernels' own (checked), defines only the helpers that are used, and gives integers the same bits on
every machine.
"""

from __future__ import annotations

from smelt.render.c import render, workspace_bytes
from smelt.render.dialect import OPENCL

__all__ = ["OPENCL", "render", "workspace_bytes"]
