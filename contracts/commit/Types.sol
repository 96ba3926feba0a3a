// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

/// @title Types
/// @notice Types of tensors, concatenated as a structure has those of its outputs (docs/protocol.md, section 4).
///
///     dtype u8 ‖ rank u8 ‖ dims u64be × rank
library Types {
    uint256 internal constant HEAD_BYTES = 2;
    uint256 internal constant DIM_BYTES = 8;

    /// @notice The bytes end before the type does.
    error TypesEnd(uint256 length, uint256 need);

    /// @notice Returns where the type that begins at `from` ends; reverts if the bytes end before that.
    function end(bytes calldata types, uint256 from) internal pure returns (uint256 next) {
        unchecked {
            next = from + HEAD_BYTES;
            if (next > types.length) revert TypesEnd(types.length, next);
            next += DIM_BYTES * uint8(types[from + 1]);
            if (next > types.length) revert TypesEnd(types.length, next);
        }
    }

    /// @notice Returns where `count` types end, the first of which begins at `from`.
    function skip(bytes calldata types, uint256 from, uint256 count) internal pure returns (uint256) {
        for (; count != 0; --count) {
            from = end(types, from);
        }
        return from;
    }
}
