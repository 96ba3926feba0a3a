// where: the only pointwise operator with three operands and two types.

#include "runtime/repops.h"
#include "runtime/broadcast.h"
#include "runtime/rows.h"

#define GRAIN (THREAD_WORK / 2)

typedef struct {
    broadcast walk;
    char *out;
    const uint8_t *cond;
    const char *a, *b;
    int64_t size;
    enum isa isa;
} job;

// With constant strides (0 or 1) the loop vectorises, so each combination of strides is a loop of its own.
#define SELECT(T)                                                                                            \
    static inline __attribute__((always_inline)) void loop_##T(int64_t n, T *o, const uint8_t *c, int sc,    \
                                                               const T *a, int sa, const T *b, int sb) {     \
        NO_DEPENDENCE for (int64_t i = 0; i < n; i++) {                                                      \
            const T x = a[i * sa], y = b[i * sb];                                                            \
            o[i] = c[i * sc] ? x : y;                                                                        \
        }                                                                                                    \
    }                                                                                                        \
    BODY select_##T##_body(int64_t n, void *o, const void *c, int64_t sc, const void *a, int64_t sa,         \
                           const void *b, int64_t sb) {                                                      \
        switch (sc * 4 + sa * 2 + sb) {                                                                      \
        case 7:                                                                                              \
            loop_##T(n, o, c, 1, a, 1, b, 1);                                                                \
            break;                                                                                           \
        case 6:                                                                                              \
            loop_##T(n, o, c, 1, a, 1, b, 0);                                                                \
            break;                                                                                           \
        case 5:                                                                                              \
            loop_##T(n, o, c, 1, a, 0, b, 1);                                                                \
            break;                                                                                           \
        case 4:                                                                                              \
            loop_##T(n, o, c, 1, a, 0, b, 0);                                                                \
            break;                                                                                           \
        case 3:                                                                                              \
            loop_##T(n, o, c, 0, a, 1, b, 1);                                                                \
            break;                                                                                           \
        case 2:                                                                                              \
            loop_##T(n, o, c, 0, a, 1, b, 0);                                                                \
            break;                                                                                           \
        case 1:                                                                                              \
            loop_##T(n, o, c, 0, a, 0, b, 1);                                                                \
            break;                                                                                           \
        default:                                                                                             \
            loop_##T(n, o, c, 0, a, 0, b, 0);                                                                \
            break;                                                                                           \
        }                                                                                                    \
    }                                                                                                        \
    VARIANTS(select_##T,                                                                                     \
             (int64_t n, void *o, const void *c, int64_t sc, const void *a, int64_t sa, const void *b,       \
              int64_t sb),                                                                                   \
             (n, o, c, sc, a, sa, b, sb))

SELECT(uint8_t)
SELECT(uint16_t)
SELECT(uint32_t)
SELECT(uint64_t)

const named_select named_selects[] = {
    {"where_1", select_uint8_t},
    {"where_2", select_uint16_t},
    {"where_4", select_uint32_t},
    {"where_8", select_uint64_t},
    {NULL, NULL},
};

static void row(void *context, int64_t count, int64_t out, const int64_t *operand) {
    const job *j = context;
    const int64_t last = j->walk.rank - 1;
    const int64_t *stride[3] = {j->walk.stride[0], j->walk.stride[1], j->walk.stride[2]};
    (j->size == 8   ? select_uint64_t
     : j->size == 4 ? select_uint32_t
     : j->size == 2 ? select_uint16_t
                    : select_uint8_t)[j->isa](count, j->out + out * j->size, j->cond + operand[0],
                                              stride[0][last], j->a + operand[1] * j->size, stride[1][last],
                                              j->b + operand[2] * j->size, stride[2][last]);
}

static void range(void *context, int64_t begin, int64_t end) {
    broadcast_walk(&((job *)context)->walk, begin, end, row, context);
}

OPERATOR(where) {
    job j = {.walk = broadcast_plan(sig), .out = data[3], .cond = data[0], .a = data[1], .b = data[2]};
    j.size = item_size(output(sig, 0)->dtype);
    j.isa = (enum isa)isa;
    parallel(threads, elements(output(sig, 0)), GRAIN, range, &j);
    return 0;
}
