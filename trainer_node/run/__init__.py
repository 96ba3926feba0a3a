"""A run of a job: its package, its computation, what it shows in a dispute, and what it costs.

package        the program and every tensor that it names, fetched and checked
replay         computes a run, and again the parts that a dispute asks for
states         states that are kept, to continue from and to begin a dispute near
checkpoints    which steps have one, in the database
offers         what is published of it for others
refutation     one checkpoint of a claimed run, and our own in its place
log_sources    rounding logs that we write
fetched_logs   those of another trainer, which a run follows
onchain_logs   rounding logs put together from what the chain shows
devices        the kernels of the processor or a GPU, and libraries for rounded-f64
modes          with which of them each arithmetic mode is computed
tensors        one limit of memory for all jobs, each tensor once
turns          one thread at a time computes with the runs
cost_estimate  time of a job, measured on its first step
right_cost     time of the slowest operator, as it is judged
trial_cost     time and memory of a trial
"""
