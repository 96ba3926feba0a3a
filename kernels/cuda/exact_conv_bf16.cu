// conv2d and its gradients in the mode exact, of bf16.

#include "exact_conv.cuh"

EXACT_CONVOLUTIONS(_bf16, bf16)
