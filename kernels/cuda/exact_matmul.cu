// mm and bmm in the mode exact, of f32.

#include "exact_matmul.cuh"

EXACT_MATMUL(, float)
