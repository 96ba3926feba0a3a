// The composite `adam` (repops/fuse/composites.py) in one loop, with the arithmetic of that expression,
// operator by operator. The loop reads four streams, writes three, and is bound by memory: fused.c reads them
// in turns and reaches half the bandwidth.

#include "unary.h"
#include <math.h>

#define GRAIN (THREAD_WORK / 2)

enum decay { NO_DECAY, ADDED, DECOUPLED };

typedef struct {
    const float *p, *grad, *m, *v;
    float *p_out, *m_out, *v_out;
    float t, rate, beta1, beta2, eps, decay;
    int64_t mode;
    enum isa isa;
} job;

// Values shared by all elements.
typedef struct {
    float keep, b1, a1, b2, a2, step, unbias;
} factors;

static factors factors_of(const job *j) {
    float power1, power2;
    pow_rows[j->isa](1, &power1, &j->beta1, 0, &j->t, 0);
    pow_rows[j->isa](1, &power2, &j->beta2, 0, &j->t, 0);
    return (factors){
        .keep = 1.0f - j->rate * j->decay,
        .b1 = j->beta1,
        .a1 = 1.0f - j->beta1,
        .b2 = j->beta2,
        .a2 = 1.0f - j->beta2,
        .step = j->rate / (1.0f - power1),
        .unbias = 1.0f / sqrtf(1.0f - power2),
    };
}

static inline __attribute__((always_inline)) void update(const job *j, const factors *f, enum decay mode,
                                                         int64_t begin, int64_t end) {
    const float *p = j->p, *grad = j->grad, *m = j->m, *v = j->v;
    float *p_out = j->p_out, *m_out = j->m_out, *v_out = j->v_out;
    const float keep = f->keep, b1 = f->b1, a1 = f->a1, b2 = f->b2, a2 = f->a2;
    const float step = f->step, unbias = f->unbias, eps = j->eps, decay = j->decay;
    NO_DEPENDENCE for (int64_t i = begin; i < end; i++) {
        const float g = mode == ADDED ? grad[i] + decay * p[i] : grad[i];
        const float before = mode == DECOUPLED ? p[i] * keep : p[i];
        const float m1 = b1 * m[i] + a1 * g;
        const float v1 = b2 * v[i] + a2 * (g * g);
        p_out[i] = before - step * m1 / (sqrtf(v1) * unbias + eps);
        m_out[i] = m1;
        v_out[i] = v1;
    }
}

BODY adam_body(const job *j, const factors *f, int64_t begin, int64_t end) {
    if (j->mode == NO_DECAY)
        update(j, f, NO_DECAY, begin, end);
    else if (j->mode == ADDED)
        update(j, f, ADDED, begin, end);
    else
        update(j, f, DECOUPLED, begin, end);
}
VARIANTS(adam, (const job *j, const factors *f, int64_t begin, int64_t end), (j, f, begin, end))

static void range(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    const factors f = factors_of(j); // here, inside the standard floating-point environment
    adam[j->isa](j, &f, begin, end);
}

typedef struct {
    int64_t n, mode;
    float beta1, beta2, eps, decay;
} adam_options;

// data: p, grad, m, v, t, rate; then the outputs p, m, v after the step, which may overwrite the inputs.
REPOPS_EXPORT int repops_adam(const adam_options *o, void *const *data, int threads, int isa) {
    const float *const *in = (const float *const *)data;
    float *const *out = (float *const *)data + 6;
    job j = {.p = in[0], .grad = in[1], .m = in[2], .v = in[3], .t = *in[4], .rate = *in[5]};
    j.p_out = out[0], j.m_out = out[1], j.v_out = out[2];
    j.beta1 = o->beta1, j.beta2 = o->beta2, j.eps = o->eps, j.decay = o->decay;
    j.mode = o->mode, j.isa = (enum isa)isa;
    parallel(threads, o->n, GRAIN, range, &j);
    return 0;
}
