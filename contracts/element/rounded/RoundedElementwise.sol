// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Modes} from "../../commit/Modes.sol";
import {Convert} from "../../float/Convert.sol";
import {ElementaryRsqrt} from "../../float/ElementaryRsqrt.sol";
import {Float64} from "../../float/Float64.sol";
import {Grid} from "../../float/Grid.sol";
import {Cases} from "../Cases.sol";
import {Elementwise} from "../Elementwise.sol";
import {Case, Entry} from "../IRule.sol";
import {BracketDecision} from "./BracketDecision.sol";

/// @title RoundedElementwise
/// @notice Elementwise operators in rounded-f64. Below 32 bits an arithmetic operation is one in binary64, then
/// rounded, and the state of `rsqrt` is its operand, in the upper half: `finish` decides. At 32 bits the operators are
/// those of repops-f32, because rounding twice is innocuous there (docs/rounding-logs.md, section 3); except the cast
/// of i64, which is rounded twice at any width.
contract RoundedElementwise is Elementwise {
    uint256 private constant OPERATIONS = (1 << ADD) | (1 << SUB) | (1 << MUL) | (1 << DIV) | (1 << SQRT);

    function _modes() internal pure override returns (uint256) {
        return Cases.ROUNDED_F64;
    }

    function _ofFloats(uint256 op, uint256 a, uint256 b, uint8 mode)
        internal
        pure
        override
        returns (uint256)
    {
        if (Modes.coarse(mode)) {
            if (op == RSQRT) return a << 32;
            if ((OPERATIONS >> op) & 1 != 0) return Grid.roundBits64(_operation(op, a, b), Modes.bits(mode));
        }
        return super._ofFloats(op, a, b, mode);
    }

    function _operation(uint256 op, uint256 a, uint256 b) private pure returns (uint256) {
        (a, b) = (Convert.f32ToF64(a), Convert.f32ToF64(b));
        if (op == ADD) return Float64.add(a, b);
        if (op == SUB) return Float64.sub(a, b);
        if (op == MUL) return Float64.mul(a, b);
        if (op == DIV) return Float64.div(a, b);
        return Float64.sqrt(a);
    }

    function _toFloat(uint256 a, uint8 mode) internal pure override returns (uint256) {
        return Grid.roundBits64(Convert.i64ToF64(a), Modes.bits(mode));
    }

    function _element(Case calldata which, uint256 state, Entry calldata entry)
        internal
        pure
        override
        returns (uint256)
    {
        if (which.op != RSQRT || !Modes.coarse(which.mode)) return state;
        (uint256 low, uint256 high, int256 exponent, uint256 sign) = ElementaryRsqrt.bracket(state >> 32);
        return BracketDecision.ofBracket(low, high, exponent, sign, entry, which.mode);
    }
}
