"""The algebra suite: programs that algebra makes cheaper, with the search for equal programs and without.

Takes names of programs and a contract; gives a report. Always holds: both are timed in alternation in one process, and
results of both, and of other libraries, are held against NumPy's in float64 before any time is reported.
"""
