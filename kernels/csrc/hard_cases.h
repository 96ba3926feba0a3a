// Inputs whose true result is within 2^-50.9, relatively, of a midpoint of two floats, and the correctly rounded
// result: {input, result} as bits. For the odd functions and cos the input is positive. Part of elementary.h.

#ifndef REPOPS_HARD_CASES_H
#define REPOPS_HARD_CASES_H

#define HARD(table) ((int)(sizeof table / sizeof table[0]))

TABLE uint32_t exp_hard[][2] = {
    // clang-format off
    {0xB3000000, 0x3F800000}, {0xBAE0E25C, 0x3F7F8FA7}, {0xBBF0EDF1, 0x3F7E1FE9}, {0xC16912CD, 0x34FD331B},
    // clang-format on
};
TABLE uint32_t log_hard[][2] = {
    // clang-format off
    {0x0DC8BBA4, 0xC289BAC4}, {0x111C87F8, 0xC28085DF}, {0x1A8446CB, 0xC24D0A45}, {0x1F116AB8, 0xC233B53E},
    {0x28E3FA26, 0xC1FA75E0}, {0x29E6126B, 0xC1EF4C02}, {0x29FD22F8, 0xC1EE8859}, {0x2C4C24B7, 0xC1D48710},
    {0x2E492984, 0xC1BE76EE}, {0x38DCBE38, 0xC1128BA4}, {0x3BF86EF0, 0xC09C399E}, {0x3C413D3A, 0xC08E158F},
    {0x41178FEB, 0x400FE5E7}, {0x464D5B2B, 0x4117BCF1}, {0x4665A9A6, 0x41198725}, {0x4C5D65A5, 0x418F034B},
    {0x4D604EBE, 0x419A352C}, {0x4E85F412, 0x41A6B811}, {0x54AF989D, 0x41EB6D3C}, {0x5EE8984E, 0x422E4A21},
    {0x62B467BA, 0x42437434}, {0x65D890D3, 0x4254D1F9}, {0x66A8C860, 0x42595E46}, {0x66ABBD63, 0x4259700E},
    {0x6D1F23EB, 0x427D2D35}, {0x6F31A8EC, 0x42845A89}, {0x79E7EC37, 0x42A1FFB7},
    // clang-format on
};
TABLE uint32_t log1p_hard[][2] = {
    // clang-format off
    {0x7FC00000, 0x7FC00000},
    // clang-format on
};
TABLE uint32_t tanh_hard[][2] = {
    // clang-format off
    {0x7FC00000, 0x7FC00000},
    // clang-format on
};
TABLE uint32_t erf_hard[][2] = {
    // clang-format off
    {0x7FC00000, 0x7FC00000},
    // clang-format on
};
TABLE uint32_t sin_hard[][2] = {
    // clang-format off
    {0x7FC00000, 0x7FC00000},
    // clang-format on
};
TABLE uint32_t cos_hard[][2] = {
    // clang-format off
    {0x7FC00000, 0x7FC00000},
    // clang-format on
};

#endif
