// ParseError: line 3, column 8: stablehlo.gather: the axes [0, 0] are not all different
func.func @main(%x: tensor<2x3xf32>, %i: tensor<i32>) -> tensor<2x3xf32> {
  %0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [0, 0], start_index_map = [9], index_vector_dim = 0>, slice_sizes = array<i64: 2, 3>}> : (tensor<2x3xf32>, tensor<i32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
