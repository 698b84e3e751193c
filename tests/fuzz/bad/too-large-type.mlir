// ParseError: line 2, column 21: tensor<99999999x99999999x99xf32> is too large
func.func @main(%x: tensor<99999999x99999999x99xf32>) { return }
