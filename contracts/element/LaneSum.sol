// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Float32} from "../float/Float32.sol";

/// @title LaneSum
/// @notice `sum` of f32 as one walk, lane after lane and block after block (docs/adjudication.md, section 2). The
/// Python twin is `referee_py/element/lanes.py`.
///
///     a block    its items at even places, then those at odd ones; each of these halves in the same way, five times.
///                The rest is a lane, whose items ascend. So lanes come in bit-reversed order, 0, 16, 8, ...
///     a level    block after block, in the order in which the level above takes their results, which are its items
///     a state    for each level, from the lowest, u32be each: the lane's sum, those of 1, 2, 4, 8, 16 waiting lanes
///
/// A finished lane is folded as a binary counter carries: with the 1 lane that waits, both with the 2 that wait ... A
/// finished block is an item of the level above it. Only items that exist have a step: the last block may have fewer
/// than 4,096, and a half without items is -0, the identity, so its fold is skipped.
library LaneSum {
    uint256 private constant BLOCK = 4096;
    uint256 private constant LOG_BLOCK = 12;
    uint256 private constant LOG_LANES = 5;
    /// @dev The lane's sum, and one for each of the five times that the lanes of a block are halved.
    uint256 private constant WORDS = 1 + LOG_LANES;
    uint256 private constant MINUS_ZERO = Float32.SIGN;

    /// @dev A step as seen at one level.
    struct Turn {
        /// @dev Number of the block, in the order in which the level above takes the blocks.
        uint256 block_;
        /// @dev Number of the item in its block.
        uint256 place;
        /// @dev True if the item is the last one of its lane.
        bool ends;
        /// @dev Bit k, of the two halves of 2^k lanes each: in `second`, whether the item is in the second half; in
        /// `both`, whether both halves have items.
        uint256 second;
        uint256 both;
    }

    function stateBytes(uint256 items) internal pure returns (uint256) {
        unchecked {
            return 4 * WORDS * _levels(items);
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

    /// @notice Returns the item that step `t` takes.
    function item(uint256 items, uint256 t) internal pure returns (uint256 found) {
        unchecked {
            uint256[] memory before = _before(items);
            for (uint256 level = 0; level < before.length; ++level) {
                Turn memory turn = _turn(_count(items, level), before[level], t);
                found += turn.place << (LOG_BLOCK * level);
                t = turn.block_;
            }
        }
    }

    /// @notice Returns the state after step `t`, which takes `value`: with all folds that are due before the next item.
    function step(uint256 items, uint256 t, bytes calldata state, uint256 value)
        internal
        pure
        returns (bytes memory next)
    {
        unchecked {
            next = state;
            _put(next, 0, Float32.add(_word(next, 0), value));
            uint256[] memory before = _before(items);
            for (uint256 level = 0; level < before.length; ++level) {
                Turn memory turn = _turn(_count(items, level), before[level], t);
                if (!turn.ends) return next;
                uint256 first = level * WORDS;
                uint256 end = first + WORDS;
                value = _word(next, first);
                _put(next, first, MINUS_ZERO);
                for (uint256 fold = first + 1; fold < end; ++fold) {
                    if (turn.second & 1 != 0) {
                        value = Float32.add(_word(next, fold), value);
                        _put(next, fold, MINUS_ZERO);
                    } else if (turn.both & 1 != 0) {
                        _put(next, fold, value);
                        return next;
                    }
                    turn.second >>= 1;
                    turn.both >>= 1;
                }
                // The block is finished.
                if (level + 1 == before.length) _put(next, first, value);
                else _put(next, end, Float32.add(_word(next, end), value));
                t = turn.block_;
            }
        }
    }

    /// @notice Returns the sum: the lane's word at the top, where the last fold leaves it.
    function finish(bytes calldata state) internal pure returns (uint64) {
        unchecked {
            uint256 top = state.length - 4 * WORDS;
            return uint32(bytes4(state[top:top + 4]));
        }
    }

    // ------------------------------------------------------------------ the walk

    /// @dev Returns the number of levels.
    function _levels(uint256 items) private pure returns (uint256 levels) {
        unchecked {
            levels = 1;
            while (_count(items, levels - 1) > BLOCK) ++levels;
        }
    }

    /// @dev Returns the number of items of a level.
    function _count(uint256 items, uint256 level) private pure returns (uint256) {
        unchecked {
            uint256 log = LOG_BLOCK * level;
            return (items + (1 << log) - 1) >> log;
        }
    }

    /// @dev The number of items in the last block of a level of `count` items. SAFETY: a sum of nothing has no step.
    function _few(uint256 count) private pure returns (uint256) {
        unchecked {
            return (count - 1) % BLOCK + 1;
        }
    }

    /// @dev For each level, how many blocks come before its last: the step in which the level above takes its last
    /// item.
    function _before(uint256 items) private pure returns (uint256[] memory before) {
        unchecked {
            before = new uint256[](_levels(items));
            for (uint256 level = before.length - 1; level != 0; --level) {
                uint256 size = _few(_count(items, level));
                uint256 found = before[level] * BLOCK;
                for (uint256 i = 0; i < LOG_LANES; ++i) {
                    // With an even number of items the last one is at an odd place, so it is in the second half.
                    if (size % 2 == 0) found += size / 2;
                    size = (size + 1) / 2;
                }
                before[level - 1] = found + size - 1;
            }
        }
    }

    /// @dev Finds step `t` in a level of `count` items, with `before` blocks before the last one, and all others full.
    function _turn(uint256 count, uint256 before, uint256 t) private pure returns (Turn memory turn) {
        unchecked {
            uint256 size = BLOCK;
            uint256 few = _few(count);
            uint256 start = before * BLOCK;
            if (start <= t && t < start + few) {
                (turn.block_, t, size) = (before, t - start, few);
            } else {
                uint256 after_ = t < start ? 0 : 1;
                t -= after_ * few;
                (turn.block_, t) = (t / BLOCK + after_, t % BLOCK);
            }
            for (uint256 i = 0; i < LOG_LANES; ++i) {
                uint256 evens = (size + 1) / 2;
                turn.both = turn.both << 1 | (size > 1 ? 1 : 0);
                turn.second <<= 1;
                if (t < evens) {
                    size = evens;
                } else {
                    (t, size) = (t - evens, size - evens);
                    turn.second |= 1;
                    turn.place |= 1 << i;
                }
            }
            turn.place |= t << LOG_LANES;
            turn.ends = t + 1 == size;
        }
    }

    // ------------------------------------------------------------------ words

    function _word(bytes memory state, uint256 i) private pure returns (uint256 word) {
        assembly ("memory-safe") {
            word := shr(224, mload(add(add(state, 0x20), shl(2, i))))
        }
    }

    function _put(bytes memory state, uint256 i, uint256 word) private pure {
        assembly ("memory-safe") {
            // The last four bytes of 32: the bytes before belong to other words, or to the length.
            let end := add(add(state, 4), shl(2, i))
            mstore(end, or(shl(32, shr(32, mload(end))), word))
        }
    }
}
