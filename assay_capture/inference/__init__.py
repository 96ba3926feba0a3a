"""Inference as a program: running a model instead of training it, with the same commitments and disputes.

    bundle = Decode("story", model, prompts, length=64).build()      # greedy decoding, a token a step
    bundle = Predict("test-set", model, {"x": x}, batch_size=32).build()

A step is `state, constants, t -> state`, as in training. The weights are constants, so the job's constant root
identifies the model; the results are in the slots after the last step.

loop           any step function over a module as a program: `loop`
decode         greedy decoding: the whole prefix each step, or one token with keys and values in slots
predict        a module over a data set, its outputs in a table
held_out_loss  the loss of a recipe over held-out data
"""

from .decode import Decode
from .held_out_loss import Evaluate
from .loop import loop, row
from .predict import Predict

__all__ = ["Decode", "Evaluate", "Predict", "loop", "row"]
