// ParseError: line 2, column 9: an operation is expected here, not (
int main() { return 0; }
