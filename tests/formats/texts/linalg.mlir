module {
  func.func @main(%arg0: tensor<3x4xf32>, %arg1: tensor<4x4xf32>) -> tensor<3x7xf32> {
    %0 = arith.constant 0.000000e+00 : f32
    %1 = tensor.empty() : tensor<3x4xf32>
    %2 = linalg.fill ins(%0 : f32) outs(%1 : tensor<3x4xf32>) -> tensor<3x4xf32>
    %3 = linalg.matmul ins(%arg0, %arg1 : tensor<3x4xf32>, tensor<4x4xf32>) outs(%2 : tensor<3x4xf32>) -> tensor<3x4xf32>
    %4 = tensor.empty() : tensor<3x4xf32>
    %20 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<3x4xf32>) outs(%4 : tensor<3x4xf32>) {
    ^bb0(%arg_5: f32, %arg_19: f32):
      %6 = arith.bitcast %arg_5 : f32 to i32
      %7 = arith.constant 16 : i32
      %8 = arith.shrui %6, %7 : i32
      %9 = arith.constant 1 : i32
      %10 = arith.andi %8, %9 : i32
      %11 = arith.constant 32767 : i32
      %12 = arith.addi %10, %11 : i32
      %13 = arith.addi %6, %12 : i32
      %14 = arith.constant -65536 : i32
      %15 = arith.andi %13, %14 : i32
      %16 = arith.bitcast %15 : i32 to f32
      %17 = arith.cmpf uno, %arg_5, %arg_5 : f32
      %18 = arith.select %17, %arg_5, %16 : f32
      linalg.yield %18 : f32
    } -> tensor<3x4xf32>
    %21 = tensor.empty() : tensor<3x7xf32>
    %22 = tensor.insert_slice %20 into %21[0, 3] [3, 4] [1, 1] : tensor<3x4xf32> into tensor<3x7xf32>
    %23 = arith.constant 0xFF800000 : f32
    %24 = tensor.empty() : tensor<3xf32>
    %25 = linalg.fill ins(%23 : f32) outs(%24 : tensor<3xf32>) -> tensor<3xf32>
    %29 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%3 : tensor<3x4xf32>) outs(%25 : tensor<3xf32>) {
    ^bb0(%arg_26: f32, %arg_27: f32):
      %28 = arith.maximumf %arg_27, %arg_26 : f32
      linalg.yield %28 : f32
    } -> tensor<3xf32>
    %30 = tensor.empty() : tensor<3x3xf32>
    %31 = tensor.extract_slice %3[0, 1] [3, 3] [1, 1] : tensor<3x4xf32> to tensor<3x3xf32>
    %37 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%31, %29 : tensor<3x3xf32>, tensor<3xf32>) outs(%30 : tensor<3x3xf32>) {
    ^bb0(%arg_32: f32, %arg_33: f32, %arg_36: f32):
      %34 = arith.subf %arg_32, %arg_33 : f32
      %35 = math.exp %34 : f32
      linalg.yield %35 : f32
    } -> tensor<3x3xf32>
    %38 = tensor.insert_slice %37 into %22[0, 0] [3, 3] [1, 1] : tensor<3x3xf32> into tensor<3x7xf32>
    return %38 : tensor<3x7xf32>
  }
}
