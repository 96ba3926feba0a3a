// conv2d and its gradients, of f32.

#include "conv.cuh"

CONVOLUTIONS(, float)
