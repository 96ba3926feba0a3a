// conv2d and its gradients in the mode exact, of f32.

#include "exact_conv.cuh"

EXACT_CONVOLUTIONS(, float)
