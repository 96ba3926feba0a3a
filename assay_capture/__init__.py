"""The client's compiler: programs and data sets out of PyTorch, ONNX and Hugging Face. No daemon imports it.

capture      a PyTorch training step as a program: recipes, optimizers, lowering
onnx         the graph of an ONNX file as a module that capture takes
exported     likewise what torch.export.save wrote
model_files  a recipe from such a file: loss and optimizer by name
huggingface  trainers and model folders as recipes, and trained states as folders that their library loads
datasets     data sets as committed tensors, and proofs of their rows; needs no torch
inference    running a model, instead of training it, as a program
cli          the commands of these; `commands` lists them for `assay`

It joins `assay` by entry points (pyproject.toml): commands, recipes by name, the exporter of `--hf`.
"""
