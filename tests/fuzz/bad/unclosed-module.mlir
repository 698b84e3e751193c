// ParseError: line 4, column 1: an operation is expected here, not the end of the text
module {
  func.func @main() { return }
