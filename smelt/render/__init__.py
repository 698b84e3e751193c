"""Kernel IR to source text.

Takes: kernels that `smelt.kernel` has lowered and verified. Gives: the text of one C translation unit (`render`), and how
many bytes of workspace a thread needs to run a kernel (`workspace_bytes`). What always holds: the text is a pure function
of the kernels, includes nothing, contains no name or number format from outside, emits only the helpers that are used,
and follows the scalar rules of ARCHITECTURE bit for bit for integers.
"""

from __future__ import annotations

from smelt.render.c import render, workspace_bytes

__all__ = ["render", "workspace_bytes"]
