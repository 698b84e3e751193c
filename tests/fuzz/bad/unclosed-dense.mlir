// ParseError: line 3, column 33: dense<…> does not end
func.func @main() {
  %0 = stablehlo.constant dense<[1, 2 : tensor<2xi32>
  return
}
