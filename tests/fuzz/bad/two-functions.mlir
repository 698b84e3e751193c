// ParseError: line 3, column 1: there are two functions called f
func.func @f() { return }
func.func @f() { return }
