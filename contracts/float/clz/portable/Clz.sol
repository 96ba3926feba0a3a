// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

/// @notice Returns the number of zero bits above the highest one: 0 for `x >= 2^255`, 255 for 1, 256 for 0.
/// @dev For chains without the CLZ opcode, by halving: each line asks whether the upper half of the rest has a one.
/// Import it as "clz/Clz.sol": the profile in foundry.toml decides between this file and ../opcode/Clz.sol.
function clz(uint256 x) pure returns (uint256 n) {
    assembly ("memory-safe") {
        // NOTE: `below` is the number of bits below the highest one, 0 for x = 0 too.
        let below := shl(7, lt(0xffffffffffffffffffffffffffffffff, x))
        below := or(below, shl(6, lt(0xffffffffffffffff, shr(below, x))))
        below := or(below, shl(5, lt(0xffffffff, shr(below, x))))
        below := or(below, shl(4, lt(0xffff, shr(below, x))))
        below := or(below, shl(3, lt(0xff, shr(below, x))))
        below := or(below, shl(2, lt(0x0f, shr(below, x))))
        below := or(below, shl(1, lt(0x03, shr(below, x))))
        below := or(below, lt(0x01, shr(below, x)))
        n := sub(add(255, iszero(x)), below)
    }
}
