// ParseError: line 2, column 1: the text has no function
