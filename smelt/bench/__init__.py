"""Measurements that a reader can repeat: `python -m smelt.bench <suite>`.

Takes the name of a suite; gives a table on stdout, or JSON. Always holds: results are checked against a reference
before they are timed, and every figure in the documentation comes from here.
"""
