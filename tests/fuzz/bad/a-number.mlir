// ParseError: line 2, column 1: an operation is expected here, not 42
42
