// The control register of floating-point arithmetic, and the settings of a careless library: subnormals
// flushed to zero, as operands and as results, and rounding upwards.

#ifndef REPLAY_ENVIRONMENT_H
#define REPLAY_ENVIRONMENT_H

#include <stdint.h>

#if defined(__x86_64__)
#include <immintrin.h>

static uint64_t read_environment(void) {
    return _mm_getcsr() & ~UINT64_C(0x3F); // without the exceptions seen so far
}
static void write_environment(uint64_t value) {
    _mm_setcsr((unsigned)value);
}
static uint64_t hostile_environment(uint64_t usual) {
    return usual | 0x8000 | 0x0040 | 0x4000; // FTZ, DAZ, RC = up
}
#elif defined(__aarch64__)
static uint64_t read_environment(void) {
    uint64_t value;
    __asm__ volatile("mrs %0, fpcr" : "=r"(value));
    return value;
}
static void write_environment(uint64_t value) {
    __asm__ volatile("msr fpcr, %0" ::"r"(value));
}
static uint64_t hostile_environment(uint64_t usual) {
    return usual | UINT64_C(1) << 24 | UINT64_C(1) << 22; // FZ, RMode = up
}
#else
#include <fenv.h>

static uint64_t read_environment(void) {
    return (uint64_t)fegetround();
}
static void write_environment(uint64_t value) {
    fesetround((int)value);
}
static uint64_t hostile_environment(uint64_t usual) {
    (void)usual;
    return FE_UPWARD;
}
#endif

#endif
