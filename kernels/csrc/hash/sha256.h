// SHA-256 (FIPS 180-4) of several short messages at a time.

#ifndef REPOPS_SHA256_H
#define REPOPS_SHA256_H

#include "runtime/repops.h"

#define HASH 32      // bytes
#define BLOCK 64     // bytes per compression
#define MESSAGE 1088 // bytes from one message to the next: 17 blocks
#define MAX_WAYS 16

// Turns `ways` padded messages of equally many blocks into as many hashes, one after the other. A message is
// at messages[i * MESSAGE], aligned to 64 bytes.
typedef struct {
    int64_t ways;
    void (*digest)(const uint8_t *messages, int64_t blocks, uint8_t *hashes);
} hasher;

// The hasher with the highest rate, by instruction set.
extern const hasher *const hashers[ISA_COUNT];

// The hasher with the processor's SHA-256 instructions: fewer ways, so better for a few messages, and a
// higher rate than AVX2. NULL if it is not compiled in; a processor supports it if repops_has_sha() is 1.
extern const hasher *const sha_hasher;

REPOPS_EXPORT int repops_has_sha(void);

#endif
