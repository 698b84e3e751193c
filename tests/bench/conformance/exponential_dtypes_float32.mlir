module @jit_main attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main() -> (tensor<2x3xf32> {jax.result_info = "", mhlo.layout_mode = "default"}) {
    %0:2 = call @inputs() : () -> (tensor<2x3xf32>, tensor<f32>)
    %1 = call @expected() : () -> tensor<2x3xf32>
    %2 = stablehlo.broadcast_in_dim %0#1, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
    %3 = stablehlo.multiply %0#0, %2 : tensor<2x3xf32>
    %4 = stablehlo.exponential %3 : tensor<2x3xf32>
    stablehlo.custom_call @check.expect_close(%4, %1) {has_side_effect = true} : (tensor<2x3xf32>, tensor<2x3xf32>) -> ()
    return %4 : tensor<2x3xf32>
  }
  func.func private @inputs() -> (tensor<2x3xf32> {mhlo.layout_mode = "default"}, tensor<f32>) {
    %cst = stablehlo.constant dense<[[0.0, 1.0, -1.0], [2.0, 0.5, -0.5]]> : tensor<2x3xf32>
    %one = stablehlo.constant dense<1.0> : tensor<f32>
    return %cst, %one : tensor<2x3xf32>, tensor<f32>
  }
  func.func private @expected() -> tensor<2x3xf32> {
    %cst = stablehlo.constant dense<[[1.0, 2.71828183, 0.36787944], [7.3890561, 1.64872127, 0.60653066]]> : tensor<2x3xf32>
    return %cst : tensor<2x3xf32>
  }
}
