// ParseError: line 2, column 19: ':' is expected here, not )
func.func @main(%x) { return }
