// mm and bmm in the mode exact, of bf16.

#include "exact_matmul.cuh"

EXACT_MATMUL(_bf16, bf16)
