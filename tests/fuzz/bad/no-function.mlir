// ParseError: line 4, column 1: the text has no function
module @m {
}
