// A call of an operator with a single argument: each argument of a foreign call costs Python as much as a
// small operator.

#include "repops.h"

// `objects` are the addresses of Python's array objects, inputs, then outputs. INVARIANT: numpy's C interface
// fixes their fields; `head` are the bytes before these (repops/host/memory.py checks both at import).
typedef struct {
    repops_operator *operator;
    const signature *sig;
    int64_t threads, isa, head;
    const char *objects[];
} packed_call;

typedef struct {
    void *data;
    int rank;
    int64_t *shape, *strides;
    void *base, *descr;
    int flags;
} array_fields;

#define PLAIN 0x101 // C-contiguous and aligned
#define NOT_PLAIN 2
#define MOST_TENSORS 64

// Return as the operator does, or NOT_PLAIN if an array is not C-contiguous and aligned.
REPOPS_EXPORT int repops_call(const packed_call *c) {
    void *data[MOST_TENSORS];
    for (int64_t i = 0; i < c->sig->inputs + c->sig->outputs; i++) {
        const array_fields *array = (const array_fields *)(c->objects[i] + c->head);
        if ((array->flags & PLAIN) != PLAIN) return NOT_PLAIN;
        data[i] = array->data;
    }
    return c->operator(c->sig, data, (int)c->threads, (int)c->isa);
}
