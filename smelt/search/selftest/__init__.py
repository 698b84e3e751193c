"""Takes nothing but a machine; says whether what the search promises holds on it.

Always holds: each test is a function that gives counts, which the command line compares with what they must be.
"""
