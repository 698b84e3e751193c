TEXT = ""
