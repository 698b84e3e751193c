"""Functions of elements: one by one, folded, scanned, multiplied, put in order."""
