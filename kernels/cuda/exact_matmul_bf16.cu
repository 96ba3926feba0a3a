// mm and bmm in the mode exact, of bf16.

#include "exact_matmul.cuh"

EXACT_MATMUL(_bf16, bf16)

KERNEL(exact_matmul_bf16_again, ExactMatmulAgain, WideMedium::THREADS, 2) {
    multiply_again<WideMedium, bf16>(p);
}
