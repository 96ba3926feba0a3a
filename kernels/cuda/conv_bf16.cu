// conv2d and its gradients, of bf16: in the f32 of widened factors, then rounded.

#include "conv.cuh"

CONVOLUTIONS(_bf16, bf16)
