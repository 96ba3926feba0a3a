// Replays recorded calls with the kernels it is linked with, and compares the bits, for builds and machines
// without Python.
//
//     replay FILE     "N calls, M runs: same bits", or the first difference and exit code 1
//
// A record of FILE (recording.py writes it; little-endian, one after the other):
//
//     name            32 bytes, zero-padded
//     words           i64, then that many i64: the signature of repops.h with its attributes
//     inputs          bytes of each
//     outputs         bytes of each, as the reference gives them, NaNs canonical
//
// Every call runs for each instruction set and several thread counts, in the floating-point environment that
// it finds and in a hostile one, which must be unchanged afterwards.

#include "runtime/repops.h"
#include "environment.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 32
#define MAX_TENSORS 64

// operators.h is generated from the operator table: one line `ROW(name)` for each operator with a kernel.
#define ROW(name) repops_operator repops_##name;
#include "operators.h"
#undef ROW

static const struct {
    const char *name;
    repops_operator *function;
} table[] = {
#define ROW(name) {#name, repops_##name},
#include "operators.h"
#undef ROW
};

typedef struct {
    char name[NAME_BYTES];
    signature *sig;
    int64_t tensors;
    size_t bytes[MAX_TENSORS];
    unsigned char *original[MAX_TENSORS]; // as in the file
} record;

static const int thread_counts[] = {1, 2, 5};

static void *allocate(size_t bytes) {
    void *memory = malloc(bytes ? bytes : 1);
    if (!memory) {
        fprintf(stderr, "no memory\n");
        exit(2);
    }
    return memory;
}

static void read_exactly(FILE *file, void *to, size_t bytes) {
    if (fread(to, 1, bytes, file) != bytes) {
        fprintf(stderr, "the file ends inside a record\n");
        exit(2);
    }
}

// Read a record; return 0 at the end of the file.
static int read_record(FILE *file, record *r) {
    if (fread(r->name, 1, NAME_BYTES, file) != NAME_BYTES) return 0;
    int64_t words;
    read_exactly(file, &words, sizeof words);
    r->sig = allocate((size_t)words * sizeof words);
    read_exactly(file, r->sig, (size_t)words * sizeof words);
    r->tensors = r->sig->inputs + r->sig->outputs;
    for (int64_t t = 0; t < r->tensors; t++) {
        const tensor *of = &r->sig->tensors[t];
        r->bytes[t] = (size_t)(elements(of) * item_size(of->dtype));
        r->original[t] = allocate(r->bytes[t]);
        read_exactly(file, r->original[t], r->bytes[t]);
    }
    return 1;
}

static void free_record(record *r) {
    for (int64_t t = 0; t < r->tensors; t++) free(r->original[t]);
    free(r->sig);
}

static repops_operator *find(const char *name) {
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strncmp(table[i].name, name, NAME_BYTES) == 0) return table[i].function;
    fprintf(stderr, "no operator called %.32s\n", name);
    exit(2);
}

// Replace every NaN by the canonical one of commitments.
static void canonicalise(const tensor *of, void *data) {
    uint32_t *f32 = data;
    uint16_t *bf16 = data;
    for (int64_t i = 0; i < elements(of); i++) {
        if (of->dtype == F32 && (f32[i] & 0x7FFFFFFF) > 0x7F800000) f32[i] = 0x7FC00000;
        if (of->dtype == BF16 && (bf16[i] & 0x7FFF) > 0x7F80) bf16[i] = 0x7FC0;
    }
}

static int differ(const record *r, int64_t t, const unsigned char *got) {
    if (r->bytes[t] == 0 || memcmp(got, r->original[t], r->bytes[t]) == 0) return 0;
    const size_t size = (size_t)item_size(r->sig->tensors[t].dtype);
    size_t at = 0;
    while (memcmp(got + at, r->original[t] + at, size) == 0) at += size;
    uint64_t bits = 0, want = 0;
    memcpy(&bits, got + at, size);
    memcpy(&want, r->original[t] + at, size);
    if (t < r->sig->inputs)
        printf("%s: input %d was written to", r->name, (int)t);
    else
        printf("%s: output %d, element %lld is %llx, not %llx", r->name, (int)(t - r->sig->inputs),
               (long long)(at / size), (unsigned long long)bits, (unsigned long long)want);
    return 1;
}

// SAFETY: each tensor ends where its allocation ends, so a sanitizer sees the first byte beyond it; `offset`
// puts it at an address that is aligned for its elements and for nothing more.
static int run(const record *r, int isa, int threads, int hostile, size_t offset) {
    void *memory[MAX_TENSORS], *data[MAX_TENSORS];
    for (int64_t t = 0; t < r->tensors; t++) {
        const size_t shift = offset * (size_t)item_size(r->sig->tensors[t].dtype);
        memory[t] = allocate(r->bytes[t] + shift);
        data[t] = (char *)memory[t] + shift;
        if (t < r->sig->inputs)
            memcpy(data[t], r->original[t], r->bytes[t]);
        else
            memset(data[t], 0xA5, r->bytes[t]); // an element that is not written must not look right
    }

    repops_operator *function = find(r->name);
    const uint64_t found = read_environment();
    if (hostile) write_environment(hostile_environment(found));
    const uint64_t before = read_environment();
    const int failed = function(r->sig, data, threads, isa);
    const uint64_t after = read_environment();
    write_environment(found);

    int wrong = 0;
    if (failed) wrong = printf("%s: no memory", r->name) > 0;
    if (!wrong && after != before)
        wrong = printf("%s: floating-point environment not given back", r->name) > 0;
    for (int64_t t = 0; t < r->tensors && !wrong; t++) {
        if (t >= r->sig->inputs) canonicalise(&r->sig->tensors[t], data[t]);
        wrong = differ(r, t, data[t]);
    }
    if (wrong) printf(" (isa %d, %d threads, %s environment)\n", isa, threads, hostile ? "hostile" : "usual");
    for (int64_t t = 0; t < r->tensors; t++) free(memory[t]);
    return wrong;
}

int main(int argc, char **argv) {
    FILE *file = argc == 2 ? fopen(argv[1], "rb") : 0;
    if (!file) {
        fprintf(stderr, "usage: replay FILE\n");
        return 2;
    }
    record r;
    long calls = 0, runs = 0;
    for (; read_record(file, &r); calls++) {
        for (int isa = 0; isa <= repops_best_isa(); isa++)
            for (size_t i = 0; i < sizeof thread_counts / sizeof *thread_counts; i++, runs++) {
                if (!run(&r, isa, thread_counts[i], (int)(runs % 2), (size_t)(calls % 2))) continue;
                printf("call %ld of the file\n", calls);
                return 1;
            }
        free_record(&r);
    }
    fclose(file);
    printf("%ld calls, %ld runs, instruction sets 0 to %d: same bits\n", calls, runs, repops_best_isa());
    return 0;
}
