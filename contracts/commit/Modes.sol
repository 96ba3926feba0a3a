// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

/// @title Modes
/// @notice The arithmetic of a program, as its mode byte says it.
///
///     1                                                repops-f32: every order is fixed, there are no logs
///     0x80 | form << 4 | bounds << 3 | (bits - 26)     rounded-f64: results of 26 to 32 bits, with rounding logs
library Modes {
    uint8 internal constant REPOPS_F32 = 1;

    uint8 private constant ROUNDED = 0x80;
    /// @dev The bits that are not parameters.
    uint8 private constant FIXED = 0xE0;
    uint8 private constant BITS = 0x07;
    uint8 private constant MAX_BITS = 6;

    /// @notice Whether records of this mode have rounding logs.
    function rounded(uint8 mode) internal pure returns (bool) {
        return mode & FIXED == ROUNDED && mode & BITS <= MAX_BITS;
    }
}
