"""The client's compiler: programs and data sets from PyTorch, ONNX and Hugging Face. No daemon imports it."""
