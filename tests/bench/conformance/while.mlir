func.func @it_never_ends() {
  %0 = stablehlo.constant dense<0> : tensor<i32>
  %1 = stablehlo.while(%i = %0) : tensor<i32>
  cond {
    %2 = stablehlo.constant dense<0> : tensor<i32>
    %3 = stablehlo.and %i, %2 : tensor<i32>
    %4 = stablehlo.compare EQ, %3, %2 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %4 : tensor<i1>
  } do {
    %2 = stablehlo.constant dense<1> : tensor<i32>
    %3 = stablehlo.xor %i, %2 : tensor<i32>
    stablehlo.return %3 : tensor<i32>
  }
  check.expect_eq_const %1, dense<1> : tensor<i32>
  func.return
}
