// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Float32} from "../float/Float32.sol";

/// @title LaneSum
/// @notice `sum` of f32 as one walk, lane after lane and block after block (docs/adjudication.md, section 2).
///
///     a step        for each level, from the lowest: a lane, and a place in it; together they name one element
///     a lane        128 places; at the top as many as are needed
///     the lanes     of a block are taken in the order of their bits reversed: 0, 16, 8, 24, 4, ...
///     a level       u32be each: the lane's sum, and those of 1, 2, 4, 8, 16 lanes that wait to be folded
///
/// When a lane is finished, it is folded as a binary counter carries: with the 1 lane that waits, both with the 2 that wait ...
/// A block that is finished is an element of the level above it. Elements that do not exist are -0, and skipped.
library LaneSum {
    uint256 private constant BLOCK = 4096;
    uint256 private constant LANES = 32;
    /// @dev The lane's sum, and one for each of the five times that the lanes of a block are halved.
    uint256 private constant WORDS = 6;
    uint256 private constant MINUS_ZERO = Float32.SIGN;

    /// @dev Five bits, reversed: one byte each.
    bytes32 private constant REVERSED = hex"0010081804140c1c02120a1a06160e1e0111091905150d1d03130b1b07170f1f";

    /// @notice How many steps the sum of so many elements takes.
    function length(uint256 items) internal pure returns (uint256 steps) {
        unchecked {
            (uint256 levels, uint256 top) = _levels(items);
            // SAFETY: items are below 2^40, so there are four levels at most, of which the top has 128 places at most.
            return (LANES * top) << (12 * (levels - 1));
        }
    }

    function stateBytes(uint256 items) internal pure returns (uint256) {
        unchecked {
            (uint256 levels,) = _levels(items);
            return 4 * WORDS * levels;
        }
    }

    function begin(uint256 items) internal pure returns (bytes memory state) {
        unchecked {
            state = new bytes(stateBytes(items));
            for (uint256 i = 0; i < state.length / 4; ++i) {
                _put(state, i, MINUS_ZERO);
            }
        }
    }

    /// @notice Which element step `t` takes, if there are so many.
    function place(uint256 items, uint256 t) internal pure returns (uint256 found) {
        unchecked {
            (uint256 levels, uint256 top) = _levels(items);
            for (uint256 level = 0; level < levels; ++level) {
                (uint256 lane, uint256 i) = _at(t, level, levels, top);
                found += (i * LANES + uint8(REVERSED[lane])) << (12 * level);
            }
        }
    }

    /// @notice The state after step `t`, which takes `value` if there is one.
    function step(uint256 items, uint256 t, bytes calldata state, bool exists, uint256 value)
        internal
        pure
        returns (bytes memory next)
    {
        unchecked {
            next = state;
            if (exists) _put(next, 0, Float32.add(_word(next, 0), value));
            (uint256 levels, uint256 top) = _levels(items);
            for (uint256 level = 0; level < levels; ++level) {
                (uint256 lane, uint256 i) = _at(t, level, levels, top);
                bool last = level + 1 == levels;
                // Is the lane finished?
                if (i + 1 < (last ? top : BLOCK / LANES)) break;
                uint256 first = level * WORDS;
                value = _word(next, first);
                _put(next, first, MINUS_ZERO);
                uint256 fold = first + 1;
                for (; lane & 1 != 0; lane >>= 1) {
                    value = Float32.add(_word(next, fold), value);
                    _put(next, fold++, MINUS_ZERO);
                }
                // Is the block?
                if (fold < first + WORDS) {
                    _put(next, fold, value);
                    break;
                }
                if (last) _put(next, first, value);
                else _put(next, fold, Float32.add(_word(next, fold), value));
            }
        }
    }

    /// @notice The sum: the lane's word at the top, where the last fold leaves it.
    function finish(bytes calldata state) internal pure returns (uint64) {
        unchecked {
            uint256 top = state.length - 4 * WORDS;
            return uint32(bytes4(state[top:top + 4]));
        }
    }

    /// @dev How many levels there are, and how many places a lane of the top one has.
    function _levels(uint256 items) private pure returns (uint256 levels, uint256 top) {
        unchecked {
            levels = 1;
            for (; items > BLOCK; ++levels) {
                items = (items + BLOCK - 1) / BLOCK;
            }
            top = items == 0 ? 1 : (items + LANES - 1) / LANES;
        }
    }

    /// @dev The digits of step `t` at a level: the lane, and the place in it.
    function _at(uint256 t, uint256 level, uint256 levels, uint256 top)
        private
        pure
        returns (uint256 lane, uint256 i)
    {
        unchecked {
            t >>= 12 * level;
            if (level + 1 == levels) return (t / top, t % top);
            return (t % BLOCK / (BLOCK / LANES), t % (BLOCK / LANES));
        }
    }

    function _word(bytes memory state, uint256 i) private pure returns (uint256 word) {
        assembly ("memory-safe") {
            word := shr(224, mload(add(add(state, 0x20), shl(2, i))))
        }
    }

    function _put(bytes memory state, uint256 i, uint256 word) private pure {
        assembly ("memory-safe") {
            // The last four bytes of 32: those before belong to other words, or to the length.
            let end := add(add(state, 4), shl(2, i))
            mstore(end, or(shl(32, shr(32, mload(end))), word))
        }
    }
}
