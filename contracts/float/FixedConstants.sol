// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

// Made by scripts/make_float_constants.py. The number after the name is the place of the binary point: each constant is
// the floor of its number times that power of two.

/// @dev ln 2
uint256 constant LN2_160 = 0x000000000000000000000000b17217f7d1cf79abc9e3b39803f2f6af40f34326;
/// @dev 1 / sqrt(2)
uint256 constant SQRT_HALF_256 = 0xb504f333f9de6484597d89b3754abe9f1d6f60ba893ba84ced17ac8583339915;
/// @dev pi / 2
uint256 constant HALF_PI_127 = 0x00000000000000000000000000000000c90fdaa22168c234c4c6628b80dc1cd1;
/// @dev 2 / pi: its first 256 bits
uint256 constant TWO_OVER_PI_256 = 0xa2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561;
/// @dev 2 / pi: its next 256 bits
uint256 constant TWO_OVER_PI_512 = 0xb7246e3a424dd2e006492eea09d1921cfe1deb1cb129a73ee88235f52ebb4484;
/// @dev 2 / sqrt(pi)
uint256 constant TWO_OVER_SQRT_PI_126 = 0x0000000000000000000000000000000048375d410a6db446b8ea453fb5ff61a2;
