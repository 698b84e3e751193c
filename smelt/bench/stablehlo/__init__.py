"""The stablehlo suite: reading text, and functions of JAX's through text against smelt's own and against XLA.

Takes words of the command line; gives rows. Always holds: smelt, smelt with what JAX wrote, and JAX run in processes of
their own, in alternation.
"""
