"""Training with the libraries of Hugging Face, taken in as recipes, and results written as folders that they load.

arguments       TrainingArguments: the table of what becomes of each, a file of them, the check of a trainer's
batches         the batches that a trainer would take, in its order
rows            batches of any shape as rows of one shape, and an order
objective       the loss as the trainer computes it
trainer         a trainer as a recipe: `recipe_of`
folder          a model and its processor from a local folder
lora            adapters as a person asks for them
row_files       rows of files, and whether they have the columns of a task
tokenized       rows as examples of a task
library         `transformers`, loaded when it is needed, and quiet
describe        what an export needs, gathered while the model is at hand
export          a trained state as a folder that `from_pretrained` loads
plain_json      configurations without what would fetch and run code
card            the model card: where the result comes from, what was checked and what is not known

NOTE: nothing is imported here: of these, some need `transformers`, some torch, and the export neither.
"""

__all__: list[str] = []
