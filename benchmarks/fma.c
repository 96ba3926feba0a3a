// A loop of nothing but fused multiply-adds of binary32, whose speed is a core's peak. Compiled for the
// processor at hand.

typedef float vector __attribute__((vector_size(__BIGGEST_ALIGNMENT__)));

#define LANES ((long)(sizeof(vector) / sizeof(float)))
// More accumulators than multiply-adds are under way at once, and no more than registers.
#define ACCUMULATORS (__BIGGEST_ALIGNMENT__ == 32 ? 12 : 24)

// Return the number of multiply-adds that were done. `kept` holds the accumulators' first lanes, at most 24.
long multiply_add(long rounds, float x, float *kept) {
    vector sum[ACCUMULATORS];
    for (int i = 0; i < ACCUMULATORS; i++) sum[i] = kept[i] - (vector){0}; // equal ones would be one
    for (long n = 0; n < rounds; n++)
#pragma GCC unroll 24
        for (int i = 0; i < ACCUMULATORS; i++) sum[i] = sum[i] * x + x;
    for (int i = 0; i < ACCUMULATORS; i++) kept[i] = sum[i][0]; // so that the loop is not removed
    return rounds * ACCUMULATORS * LANES;
}
