// The order of a convolution's terms in the mode tc16.

#include "tc16_gemm.h"
#include "tc16_block.h"

static void turn(linear *f) {
    const int64_t channels = f->stride[1];
    f->stride[1] = f->stride[2], f->stride[2] = f->stride[3], f->stride[3] = channels;
}

// `number`: of a tap of one channel, in the old order; the new one has `channels` times as many.
static void turn_terms(loops *taps, linear *number) {
    const int64_t channels = taps->size[1], padded = ceil_div(channels, TC16_TERMS) * TC16_TERMS;
    *taps = (loops){{taps->size[0], taps->size[2], taps->size[3], channels}};
    *number =
        (linear){number->start * padded, {0, number->stride[2] * padded, number->stride[3] * padded, 1}};
}

void tc16_turn(part *p) {
    turn_terms(&p->taps, &p->number);
    turn(&p->b_tap), turn(&p->y_tap), turn(&p->x_tap);
}

void tc16_turn_rows(gemm *g) {
    turn_terms(&g->taps, &g->number);
    turn(&g->a_tap);
}
