"""TrainingArguments: how a program follows each of them.

table   what becomes of each: translated, harmless, or refused unless it has a value that is
file    those of a YAML file
check   whether a program can follow those of a trainer

NOTE: nothing is imported here, because only `check` needs torch.
"""

__all__: list[str] = []
