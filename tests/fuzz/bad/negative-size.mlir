// UnsupportedOp: line 2, column 1: main: an argument is tensor<-2xf32>, which is not supported
func.func @main(%x: tensor<-2xf32>) { return }
