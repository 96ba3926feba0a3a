// A library as careless authors build it: -ffast-math links crtfastmath.o, which sets flush-to-zero when it
// is loaded. Also reads the control registers of this thread and of OpenMP's threads.

#include <immintrin.h>
#include <stdint.h>

#define FLUSHING 0x8040 // FTZ and DAZ

uint32_t get_mxcsr(void) {
    return _mm_getcsr() & ~0x3Fu; // without the exceptions seen so far
}
void set_mxcsr(uint32_t value) {
    _mm_setcsr(value);
}
uint16_t get_x87(void) {
    uint16_t word;
    __asm__ volatile("fnstcw %0" : "=m"(word));
    return word;
}
void set_x87(uint16_t word) {
    __asm__ volatile("fldcw %0" ::"m"(word));
}

// Return how many of `threads` OpenMP threads flush subnormals to zero. The kernels use the same pool.
int flushing_threads(int threads) {
    int count = 0;
#pragma omp parallel num_threads(threads) reduction(+ : count)
    count += (get_mxcsr() & FLUSHING) == FLUSHING;
    return count;
}
