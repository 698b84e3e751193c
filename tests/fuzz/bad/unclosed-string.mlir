// ParseError: line 2, column 24: a string in quotes is expected here, not "text} {
module attributes {a = "text} {
}
