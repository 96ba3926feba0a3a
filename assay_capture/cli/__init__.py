"""The compiler's commands. `commands` lists them; `assay` loads a file when one of its commands is called.

build        `assay program build`, `assay program recipes`
huggingface  flags of `assay program build` for a model of transformers in a local folder
data         `assay data`
"""
