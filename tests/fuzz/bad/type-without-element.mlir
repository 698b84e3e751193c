// UnsupportedOp: line 2, column 1: main: an argument is tensor<2x3>, which is not supported
func.func @main(%x: tensor<2x3>) { return }
