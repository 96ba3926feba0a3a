"""Many operators as one kernel, with the bits of the operators one by one.

expression  sequences of operators, recorded or executed
composites  softmax, layer_norm, adam ... as expressions
phases      when and where each value of a single pass over rows is computed, for every executor
segments    an expression that is not a single pass, cut into several
fusion      kernels of expressions on the processor
"""
