// ParseError: line 3, column 1: the text has no function
// nothing here
