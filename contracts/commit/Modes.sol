// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

/// @title Modes
/// @notice The arithmetic of a program, as its mode byte encodes it.
///
///     1                                                repops-f32: every order is fixed, there are no logs
///     2                                                exact: sums are real sums, rounded once; there are no logs
///     3                                                tc16: as repops-f32, but contractions of bf16 are those of tensor
///                                                      cores; there are no logs.
///     0x80 | form << 4 | bounds << 3 | (bits - 26)     rounded-f64: results of 26 to 32 bits, with rounding logs
library Modes {
    uint8 internal constant REPOPS_F32 = 1;
    uint8 internal constant EXACT = 2;
    uint8 internal constant TC16 = 3;

    uint8 private constant ROUNDED = 0x80;
    /// @dev The bits that are not parameters.
    uint8 private constant FIXED = 0xE0;
    uint8 private constant BITS = 0x07;
    uint8 private constant MAX_BITS = 6;
    uint8 private constant PROBABLE = 0x08;
    uint256 private constant MIN_WIDTH = 26;

    /// @notice Returns whether a job may have this mode.
    function known(uint8 mode) internal pure returns (bool) {
        return mode == REPOPS_F32 || mode == EXACT || mode == TC16 || rounded(mode);
    }

    /// @notice Returns whether records of this mode have rounding logs.
    function rounded(uint8 mode) internal pure returns (bool) {
        return mode & FIXED == ROUNDED && mode & BITS <= MAX_BITS;
    }

    /// @notice Returns the number of bits of a result, in rounded-f64.
    function bits(uint8 mode) internal pure returns (uint256) {
        unchecked {
            return MIN_WIDTH + (mode & BITS);
        }
    }

    /// @notice Returns whether results have fewer bits than binary32.
    function coarse(uint8 mode) internal pure returns (bool) {
        return rounded(mode) && mode & BITS != MAX_BITS;
    }

    /// @notice Returns whether the radii are the probable ones, in rounded-f64.
    function probable(uint8 mode) internal pure returns (bool) {
        return mode & PROBABLE != 0;
    }
}
