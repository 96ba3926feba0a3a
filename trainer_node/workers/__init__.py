"""One step of a program, computed by many processes: the bits of one, for any number of them (docs/programs.md).

micro_batches  which parts of the batch each node depends on, from the data flow
partition      which worker computes each node: a pure function of program and number of workers
plan           each worker's stages, and the messages between them
by_node        a part of a step, node by node, with hashes
compiled       a part of a step, its stages compiled
worker         one worker: its state, and its part of each step
lead           worker 0: the executor that a run uses
serve          the others: they do what worker 0 says
commands       what it says
channel        what connects them
gloo           the channel over torch.distributed; who is to blame if one does not answer
launch         starting the processes
team           a daemon's run: workers as long as all live, and one process otherwise
"""
