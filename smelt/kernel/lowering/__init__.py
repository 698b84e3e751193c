"""Lowering: a region and a schedule become a kernel.

Functions over one `State`. This package opens loops and makes values, reductions and scans; what single actions do to
that is in `kernel/actions`, whose handlers are called at the hook points of `hooks`.
"""
