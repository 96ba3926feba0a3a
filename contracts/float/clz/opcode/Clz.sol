// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

/// @notice Returns the number of zero bits above the highest one: 0 for `x >= 2^255`, 255 for 1, 256 for 0.
/// @dev For chains with the CLZ opcode (EIP-7939, 5 gas), which exists from osaka on. Import it as "clz/Clz.sol": the
/// profile in foundry.toml decides between this file and ../portable/Clz.sol.
function clz(uint256 x) pure returns (uint256 n) {
    assembly ("memory-safe") {
        n := clz(x)
    }
}
