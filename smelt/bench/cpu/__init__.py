"""The cpu suite: kernels and small networks against NumPy, PyTorch, JAX and the machine itself.

Takes the names of cases; gives rows of ratios. Always holds: every library runs in processes of its own, pinned to as
many cores as it may use, on inputs that it holds in its own memory, and its results are compared with NumPy's first.
A library is a module of this package, `in_<library>`, with a table of operations: `library.py` says what is in it.
"""
