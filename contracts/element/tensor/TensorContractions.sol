// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Float32} from "../../float/Float32.sol";
import {TensorBlock} from "../../float/TensorBlock.sol";
import {Cases} from "../Cases.sol";
import {Contractions} from "../Contractions.sol";
import {Convolutions} from "../Convolutions.sol";
import {Case, Entry} from "../IRule.sol";
import {Shapes} from "../Shapes.sol";
import {Specs} from "../Specs.sol";

/// @title TensorContractions
/// @notice Contractions in tc16. Those of f32 are the same as in repops-f32; those of bf16 are chains of blocks
/// (TensorBlock), in chunks of 512 places whose totals are added in f32.
/// @dev A block of n terms takes 2 n steps: n that widen, then n that accumulate, the last of which rounds. The places of
/// a convolution are (r, s, c), the channels c of each tap (r, s) padded to a multiple of 16: so a tap begins a block.
/// Padding takes no steps; a term that does not exist takes both of its own.
///
/// State, 16 bytes, all 0 before the first step: `total u32be ‖ c u32be ‖ e u16be ‖ flags u8 ‖ sum i40be`. The total is
/// the sum of the earlier chunks; c is what the blocks of this one gave; the rest is of the block that is under way, else
/// 0. No block gives -0, so +0 is the identity of both sums.
contract TensorContractions is Contractions {
    /// @dev Terms of a block, and blocks of a chunk.
    uint256 private constant BLOCK = 16;
    uint256 private constant CHUNK = 32;
    uint256 private constant BYTES = 16;

    // What happens in a step: bits of a set.
    uint256 private constant OPENS_CHUNK = 1;
    uint256 private constant OPENS = 2;
    uint256 private constant ACCUMULATES = 4;
    uint256 private constant BEGINS_SUM = 8;
    uint256 private constant ENDS = 16;

    // The places of a state's words, as bits above its lowest.
    uint256 private constant TOTAL = 96;
    uint256 private constant C = 64;
    uint256 private constant E = 48;
    uint256 private constant FLAGS = 40;

    function _modes() internal pure override returns (uint256) {
        return Cases.TC16;
    }

    function _steps(uint256 terms, bool narrow) internal pure override returns (uint256) {
        unchecked {
            return narrow ? 2 * terms : terms;
        }
    }

    function _size(bool narrow) internal pure override returns (uint256) {
        return narrow ? BYTES : super._size(narrow);
    }

    function _begin(bool narrow) internal pure override returns (bytes memory) {
        return narrow ? new bytes(BYTES) : super._begin(narrow);
    }

    function _turn(Case calldata which, uint256 t, uint256 terms, bool narrow)
        internal
        pure
        override
        returns (uint256 k, uint256 turn)
    {
        unchecked {
            if (!narrow) return (t, t);
            // SAFETY: the chain has step t, so there are terms and taps.
            uint256 taps = 1;
            uint256 channels = terms;
            uint256 tap = 0;
            if (which.op == Convolutions.FORWARD || which.op == Convolutions.INPUT_GRAD) {
                taps = Shapes.countFrom(Specs.get(which.inputs, 1), 2);
                channels = terms / taps;
                (tap, t) = (t / (2 * channels), t % (2 * channels));
            }
            uint256 block_ = t / (2 * BLOCK);
            uint256 r = t % (2 * BLOCK);
            k = block_ * BLOCK;
            uint256 count = channels - k;
            if (count > BLOCK) count = BLOCK;
            if (r < count) {
                if (r == 0) {
                    uint256 number = tap * ((channels + BLOCK - 1) / BLOCK) + block_;
                    turn = number % CHUNK == 0 ? OPENS | OPENS_CHUNK : OPENS;
                }
            } else {
                r -= count;
                turn = ACCUMULATES;
                if (r == 0) turn |= BEGINS_SUM;
                if (r + 1 == count) turn |= ENDS;
            }
            // NOTE: terms are numbered in the order (c, r, s).
            k = (k + r) * taps + tap;
        }
    }

    function _next(uint256 turn, bytes calldata state) internal pure override returns (bytes memory) {
        // SAFETY: the size of a state is checked, and tells which chain it is of.
        if (state.length != BYTES) return super._next(turn, state);
        return _encoded(turn, _opened(turn, _word(state)));
    }

    function _next(uint256 turn, bytes calldata state, uint256 a, uint256 b)
        internal
        pure
        override
        returns (bytes memory)
    {
        if (state.length != BYTES) return super._next(turn, state, a, b);
        unchecked {
            uint256 word = _opened(turn, _word(state));
            (a, b) = (a >> 16, b >> 16);
            uint256 e = uint16(word >> E);
            uint256 sum = word & TensorBlock.SUM;
            if (turn & ACCUMULATES != 0) {
                word ^= sum ^ TensorBlock.accumulate(e, sum, a, b);
            } else {
                (uint256 wider, uint256 flags) = TensorBlock.widen(e, uint8(word >> FLAGS), a, b);
                word = (word >> C << C) | (wider << E) | (flags << FLAGS) | sum;
            }
            return _encoded(turn, word);
        }
    }

    /// @dev Returns the state with what a step does before it takes its term: a new chunk and a new block where they
    /// begin, and c, the first that is added.
    function _opened(uint256 turn, uint256 word) private pure returns (uint256) {
        unchecked {
            if (turn & OPENS != 0) {
                uint256 total = word >> TOTAL;
                uint256 c = uint32(word >> C);
                if (turn & OPENS_CHUNK != 0) (total, c) = (Float32.add(total, c), 0);
                (uint256 e, uint256 flags) = TensorBlock.opened(c);
                word = (total << TOTAL) | (c << C) | (e << E) | (flags << FLAGS);
            }
            if (turn & BEGINS_SUM != 0) {
                uint256 sum = word & TensorBlock.SUM;
                word ^= sum ^ TensorBlock.begun(uint16(word >> E), sum, uint32(word >> C));
            }
            return word;
        }
    }

    /// @dev Returns the encoding of a state, in which a block that ends has become c.
    function _encoded(uint256 turn, uint256 word) private pure returns (bytes memory) {
        unchecked {
            if (turn & ENDS != 0) {
                uint256 c =
                    TensorBlock.rounded(uint16(word >> E), uint8(word >> FLAGS), word & TensorBlock.SUM);
                word = (word >> TOTAL << TOTAL) | (c << C);
            }
            return abi.encodePacked(uint128(word));
        }
    }

    function _word(bytes calldata state) private pure returns (uint256) {
        return uint128(bytes16(state));
    }

    function _element(uint8 mode, bytes calldata state, Entry calldata entry, bool narrow)
        internal
        pure
        override
        returns (uint256)
    {
        if (state.length != BYTES) return super._element(mode, state, entry, narrow);
        uint256 word = _word(state);
        return Float32.add(word >> TOTAL, uint32(word >> C));
    }
}
