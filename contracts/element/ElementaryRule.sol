// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Modes} from "../commit/Modes.sol";
import {ElementaryBracket} from "../float/ElementaryBracket.sol";
import {Attributes} from "./Attributes.sol";
import {Broadcast} from "./Broadcast.sol";
import {Cases} from "./Cases.sol";
import {Case, Entry, Opened} from "./IRule.sol";
import {Point} from "./Point.sol";
import {BracketDecision} from "./rounded/BracketDecision.sol";

/// @title ElementaryRule
/// @notice The common part of the families of elementary functions: f32 operands, which broadcast, and no attributes.
/// @dev In repops-f32 and exact, and in rounded-f64 of 32 bits, values are correctly rounded and no log decides
/// anything. Below 32 bits the state is `a u32be ‖ b u32be`, the operands (b is 0 if there is none), and `finish` decides.
abstract contract ElementaryRule is Point {
    uint256 internal constant POW = 17;
    uint256 private constant WORD = 0xFFFFFFFF;

    function _check(Case calldata which) internal pure override {
        Cases.mine(which, _operators(), Cases.ANY);
        uint256 inputs = _arity(which.op);
        Broadcast.check(which, inputs);
        Cases.input(which, 0, Cases.F32);
        Cases.input(which, inputs - 1, Cases.F32);
        Cases.output(which, 0, Cases.F32);
        Attributes.end(which.attributes, 0);
    }

    function _value(Case calldata which, Opened[] calldata opened)
        internal
        pure
        override
        returns (uint256 bits, uint256 taken)
    {
        _check(which);
        taken = _arity(which.op);
        uint256 a = Broadcast.read(which, opened, 0);
        uint256 b = taken > 1 ? Broadcast.read(which, opened, 1) : 0;
        if (Modes.coarse(which.mode)) return (a << 32 | b, taken);
        (uint256 low, uint256 high, int256 exponent, uint256 sign) = _bracket(which.op, a, b);
        bits = ElementaryBracket.toBinary32(low, high, exponent, sign);
    }

    function _element(Case calldata which, uint256 state, Entry calldata entry)
        internal
        pure
        override
        returns (uint256)
    {
        if (!Modes.coarse(which.mode)) return state;
        (uint256 low, uint256 high, int256 exponent, uint256 sign) =
            _bracket(which.op, state >> 32, state & WORD);
        return BracketDecision.ofBracket(low, high, exponent, sign, entry, which.mode);
    }

    function _arity(uint256 op) private pure returns (uint256) {
        return op == POW ? 2 : 1;
    }

    /// @dev Bit `op` stands for operator `op`.
    function _operators() internal pure virtual returns (uint256);

    /// @dev Returns the real value of one of these operators: see ElementaryBracket. Only `pow` has a `b`.
    function _bracket(uint256 op, uint256 a, uint256 b)
        internal
        pure
        virtual
        returns (uint256 low, uint256 high, int256 exponent, uint256 sign);
}
