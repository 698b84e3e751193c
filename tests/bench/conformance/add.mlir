// RUN: stablehlo-translate --interpret -split-input-file %s

func.func @add_integers() {
  %0 = stablehlo.constant dense<[0, 1, -128, 127]> : tensor<4xi8>
  %1 = stablehlo.constant dense<[5, -2, -1, 1]> : tensor<4xi8>
  %2 = stablehlo.add %0, %1 : tensor<4xi8>
  check.expect_eq_const %2, dense<[5, -1, 127, -128]> : tensor<4xi8>
  func.return
}

// -----

func.func @add_complex() {
  %0 = stablehlo.constant dense<[(1.0, 2.0), (-0.5, 0.0)]> : tensor<2xcomplex<f32>>
  %1 = stablehlo.add %0, %0 : tensor<2xcomplex<f32>>
  check.expect_almost_eq_const %1, dense<[(2.0, 4.0), (-1.0, 0.0)]> : tensor<2xcomplex<f32>>
  func.return
}

// -----

func.func @add_float() {
  %0 = stablehlo.constant dense<[0x7FC00000, 0.1, 0x7F800000]> : tensor<3xf32>
  %1 = stablehlo.constant dense<0.2> : tensor<3xf32>
  %2 = stablehlo.add %0, %1 : tensor<3xf32>
  %3 = stablehlo.constant dense<[0x7FC00000, 0.3, 0x7F800000]> : tensor<3xf32>
  check.expect_eq %2, %2 : tensor<3xf32>
  check.expect_almost_eq %2, %3 {tolerance = 0.001 : f64} : tensor<3xf32>
  check.expect_close %2, %3, max_ulp_difference = 1 : tensor<3xf32>, tensor<3xf32>
  func.return
}
