// mm and bmm of bf16: in the f32 of widened factors, then rounded.

#include "matmul.cuh"

MATMUL(_bf16, bf16)
