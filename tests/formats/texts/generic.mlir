#loc = loc("somewhere")
#loc1 = loc("model.py":3:1)
"builtin.module"() <{sym_name = "generic"}> ({
  "func.func"() <{function_type = (tensor<2x3xf32>, tensor<f32>) -> (tensor<2xf32>, tensor<2x3xi1>), sym_name = "main"}> ({
  ^bb0(%x: tensor<2x3xf32> loc("x"), %start: tensor<f32> loc(unknown)):
    %c = "stablehlo.constant"() <{value = dense<"0x010000010001"> : tensor<2x3xi1>}> : () -> tensor<2x3xi1> loc(#loc1)
    // A body that reads a value from outside.
    %0 = "stablehlo.reduce"(%x, %start) <{dimensions = array<i64: 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %1 = "stablehlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%1) : (tensor<f32>) -> ()
    }) {mhlo.note = "kept"} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32> loc(fused[#loc, #loc1])
    %2 = "stablehlo.compare"(%x, %x) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>}> : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>
    %3 = "stablehlo.and"(%2, %c) : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<2x3xi1>
    "func.return"(%0, %3) : (tensor<2xf32>, tensor<2x3xi1>) -> ()
  }) : () -> ()
}) : () -> () loc(#loc)
