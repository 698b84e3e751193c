"""A deep-learning compiler with a tensor library on top: `import smelt as sm`.

Takes tensor programs; gives fused kernels and their results. Always holds: nothing is computed before it is asked for,
a tensor never changes, and what this module names is the whole public surface.
"""
