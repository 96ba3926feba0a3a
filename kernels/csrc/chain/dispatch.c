// Selects the walk of a chain, and exports the C ABI of all walks.

#include "chain.h"

static void advance(void *context, int64_t begin, int64_t end) {
    (void)begin, (void)end;
    const chain *c = context;
    switch ((enum chain_kind)c->kind) {
    case CHAIN_MATMUL:
    case CHAIN_CONV:
    case CHAIN_INPUT_GRAD:
    case CHAIN_WEIGHT_GRAD:
        (chain_has_blocks(c) ? chain_tensor : chain_terms)(c);
        return;
    case CHAIN_SUM:
        if (c->sig->tensors[0].dtype == I64)
            chain_select(c);
        else if (sums_exactly(c))
            chain_exact_sum(c);
        else
            chain_lanes(c);
        return;
    case CHAIN_AMAX:
    case CHAIN_ARGMAX:
    case CHAIN_POOL:
        chain_select(c);
        return;
    case CHAIN_SCATTER:
        chain_scatter(c);
        return;
    }
}

// Advance `state`, in place, from before step `from` to before step `to`.
REPOPS_EXPORT void repops_chain(const signature *sig, void *const *data, int kind, int sums, int64_t element,
                                int64_t from, int64_t to, uint8_t *state) {
    chain c = {sig, data, kind, sums, element, from, to, state};
    parallel(1, 1, 1, advance, &c); // for its floating-point environment
}

static int64_t terms_or_items(const chain *c) {
    const tensor *first = input(c->sig, 0), *second = input(c->sig, 1);
    const int64_t *attr = attributes(c->sig);
    switch ((enum chain_kind)c->kind) {
    case CHAIN_MATMUL:
        return first->dim[first->rank - 1];
    case CHAIN_CONV:
        return product(second->dim + 1, 3);
    case CHAIN_INPUT_GRAD:
        return first->dim[1] / attr[9] * product(second->dim + 2, 2);
    case CHAIN_WEIGHT_GRAD:
        return first->dim[0] * product(first->dim + 2, 2);
    case CHAIN_POOL:
        return chain_pool_length(c);
    case CHAIN_SCATTER:
        return 1 + elements(second);
    case CHAIN_SUM:
    case CHAIN_AMAX:
    case CHAIN_ARGMAX:
        return reduction_of(c).count;
    }
    return 0;
}

// Return the number of steps of the chain.
REPOPS_EXPORT int64_t repops_chain_length(const signature *sig, int kind, int sums, int64_t element) {
    const chain c = {.sig = sig, .kind = kind, .sums = sums, .element = element};
    return (chain_has_blocks(&c) ? 2 : 1) * terms_or_items(&c);
}
