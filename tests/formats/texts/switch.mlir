module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x5xf32>) -> (tensor<4x5xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.slice %arg0 [0:1, 0:1] : (tensor<4x5xf32>) -> tensor<1x1xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x1xf32>) -> tensor<f32>
    %2 = stablehlo.convert %1 : (tensor<f32>) -> tensor<i32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<2> : tensor<i32>
    %3 = stablehlo.clamp %c, %2, %c_0 : tensor<i32>
    %4 = "stablehlo.case"(%3) ({
      %5 = stablehlo.sine %arg0 : tensor<4x5xf32>
      stablehlo.return %5 : tensor<4x5xf32>
    }, {
      %5 = stablehlo.cosine %arg0 : tensor<4x5xf32>
      stablehlo.return %5 : tensor<4x5xf32>
    }, {
      %5 = stablehlo.tan %arg0 : tensor<4x5xf32>
      stablehlo.return %5 : tensor<4x5xf32>
    }) : (tensor<i32>) -> tensor<4x5xf32>
    return %4 : tensor<4x5xf32>
  }
}
