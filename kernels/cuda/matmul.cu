// mm and bmm of f32.

#include "matmul.cuh"

MATMUL(, float)
