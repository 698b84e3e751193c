"""Measurements that a reader can repeat: `python -m smelt.bench <suite>`.

Takes the name of a suite; gives a table on stdout, or JSON. Always holds: a result is compared with a reference before
its time is reported, what could disturb a measurement gets a process of its own, and every figure in the documentation
comes from here.
"""
