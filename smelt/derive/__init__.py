"""Takes nodes of a function; gives nodes of another one that is derived from it: batched, or differentiated.

Always holds: nothing is computed and no node changes; what does not depend on the inputs in question is left alone;
graphs of any depth are walked without recursion; each op has one rule, in one table.
"""
