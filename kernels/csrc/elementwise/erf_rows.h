// The error function in short, for vectors that look up tables of sixteen: erf(a) / a around
// c = 1/8, 3/8, ..., 31/8 as a polynomial in a - c, within a relative 2^-38.8.
//
// ERF_ROWS(ROW) is ROW(power, sixteen coefficients, one for each c) for each power of a - c.

#ifndef REPOPS_ERF_ROWS_H
#define REPOPS_ERF_ROWS_H

#define ERF_POWERS 8

// clang-format off
#define ERF_ROWS(ROW) \
    ROW(0, 0x1.1f5e1a35c15bcp+0, 0x1.13e08c7a162f5p+0, 0x1.fe8f1614e7e7dp-1, 0x1.cacbc181fbb33p-1, \
        0x1.9450bb1ec7b17p-1, 0x1.611065fc927e6p-1, 0x1.3448f8704acc5p-1, 0x1.0ee12190b09a4p-1, \
        0x1.e09a79ee7d2f9p-2, 0x1.aed200cd6800bp-2, 0x1.8603df09099c5p-2, 0x1.64282886ff376p-2, \
        0x1.47ad3ff301a4ep-2, 0x1.2f6827c1b0936p-2, 0x1.1a7b909ae7a49p-2, 0x1.08420fc7a48fap-2) \
    ROW(1, -0x1.7d900b9e864edp-4, -0x1.09ac3c1b26fap-2, -0x1.7edef5d897f03p-2, -0x1.b29323959aa34p-2, \
        -0x1.ad1533f369d6ep-2, -0x1.82ad1810b841ap-2, -0x1.48b7c44d5260dp-2, -0x1.0e9e17d612868p-2, \
        -0x1.b87061646ea6fp-3, -0x1.675759c9faee1p-3, -0x1.284241dbd5e2fp-3, -0x1.ef1beecc9c43cp-4, \
        -0x1.a35763ed2f25p-4, -0x1.6793ed0a04212p-4, -0x1.37b3d829952bfp-4, -0x1.10c83ad00a3f7p-4) \
    ROW(2, -0x1.766bd0f161544p-2, -0x1.276ba5b2000acp-2, -0x1.5275c5e26ce54p-3, -0x1.4574db8c3b506p-5, \
        0x1.bbf49239d219cp-5, 0x1.ab151a9f97f44p-4, 0x1.df898851d794fp-4, 0x1.b7e9ea696ccdp-4, \
        0x1.6bfb99736d1ep-4, 0x1.1e314dd0addadp-4, 0x1.ba09e28a423c7p-5, 0x1.560bd269f1fefp-5, \
        0x1.0bd914b6a3d1dp-5, 0x1.a9f5181a82684p-6, 0x1.57e94aec0bc8cp-6, 0x1.199374fe15314p-6) \
    ROW(3, 0x1.c5a8df89ce912p-5, 0x1.24d6bb72d434bp-3, 0x1.671c4f05ea4fbp-3, 0x1.367b5cc6963cp-3, \
        0x1.8a284b721ec12p-4, 0x1.3fc0da61b45e7p-5, -0x1.685f0e131ba12p-10, -0x1.5d2c61e29e7abp-6, \
        -0x1.ae6bfd5c70f29p-6, -0x1.8349c32a0941bp-6, -0x1.324482457934ep-6, -0x1.cac3dc961c5bap-7, \
        -0x1.52a6a0ea3d808p-7, -0x1.f70a65cd13312p-8, -0x1.7b2696369c633p-8, -0x1.229a7def8a406p-8) \
    ROW(4, 0x1.b4bfec590f7e4p-4, 0x1.01ba0dedfb279p-4, 0x1.d30351433d841p-10, -0x1.6f0c46294c526p-5, \
        -0x1.f1065c4e57c5p-5, -0x1.9e443463df455p-5, -0x1.e76f5b6df8366p-6, -0x1.6e1a591224319p-7, \
        -0x1.63d05383dddecp-15, 0x1.21e0c44618a2dp-8, 0x1.4b8608107fcf6p-8, 0x1.143f97ffd8dap-8, \
        0x1.9a16be6af584dp-9, 0x1.249699ff0b064p-9, 0x1.a01e8605d2bdap-10, 0x1.2b9383cb2c7fep-10) \
    ROW(5, -0x1.40df3df793d53p-6, -0x1.7d1e957edb1ep-5, -0x1.7ea635624501bp-5, -0x1.a39a6c63d2a41p-6, \
        -0x1.2faa2e4db6d0cp-11, 0x1.dbbf775d63912p-7, 0x1.166e2c75033e4p-6, 0x1.8b937c14a5b83p-7, \
        0x1.82ad6a61a0b89p-8, 0x1.b2413fc55cd13p-10, -0x1.4fd50ecc15995p-12, -0x1.c8420183b700dp-11, \
        -0x1.ac1def7eb8b85p-11, -0x1.4154b6c80d046p-11, -0x1.bfb6e0ca9d012p-12, -0x1.3304da054088ep-12) \
    ROW(6, -0x1.9113232706ff2p-6, -0x1.3828e2f105e26p-7, 0x1.16526b1065aep-7, 0x1.1b8d0be8f5ad4p-6, \
        0x1.d3bb3f0b332b8p-7, 0x1.6d73c4bd60f83p-8, -0x1.94c54948919ebp-10, -0x1.1480507aee28bp-8, \
        -0x1.db339fe0824d7p-9, -0x1.07cc9bfbe2c6dp-9, -0x1.83ee16eec77a7p-11, -0x1.99ba17d566091p-14, \
        0x1.e22f4a3fae399p-14, 0x1.20fed9c5c8017p-13, 0x1.c04fd8f41957cp-14, 0x1.33873b6d3319ap-14) \
    ROW(7, 0x1.475750db9050fp-8, 0x1.63c417a708ec9p-7, 0x1.160a7571fdf94p-7, 0x1.63ce978a129fap-10, \
        -0x1.108b013591871p-8, -0x1.4b14852ce9368p-8, -0x1.72ba1194bc82fp-9, -0x1.865272af19fb9p-12, \
        0x1.af16a7ff938d1p-11, 0x1.d52e8dd607714p-11, 0x1.1ad1672100bdfp-11, 0x1.c871add697c95p-13, \
        0x1.98dad8ba05af6p-15, -0x1.5b827a9b1031bp-17, -0x1.5b60ee10f5e41p-16, -0x1.1a3241b2fbac4p-16)
// clang-format on

#endif
