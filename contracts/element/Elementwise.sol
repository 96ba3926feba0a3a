// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Convert} from "../float/Convert.sol";
import {Float32} from "../float/Float32.sol";
import {Attributes} from "./Attributes.sol";
import {Broadcast} from "./Broadcast.sol";
import {Cases} from "./Cases.sol";
import {Case, Opened} from "./IRule.sol";
import {Point} from "./Point.sol";
import {Specs} from "./Specs.sol";

/// @title Elementwise
/// @notice Arithmetic, comparisons, logic, `where` and casts (docs/opset.md, section 4).
contract Elementwise is Point {
    // Operators.
    uint256 internal constant ADD = 1;
    uint256 internal constant SUB = 2;
    uint256 internal constant MUL = 3;
    uint256 internal constant DIV = 4;
    uint256 private constant NEG = 5;
    uint256 private constant MAXIMUM = 6;
    uint256 private constant MINIMUM = 7;
    uint256 internal constant SQRT = 8;
    uint256 internal constant RSQRT = 11;
    uint256 private constant EQ = 20;
    uint256 private constant NE = 21;
    uint256 private constant LT = 22;
    uint256 private constant LE = 23;
    uint256 private constant GT = 24;
    uint256 private constant GE = 25;
    uint256 private constant LOGICAL_AND = 26;
    uint256 private constant LOGICAL_OR = 27;
    uint256 private constant LOGICAL_NOT = 28;
    uint256 private constant WHERE = 29;
    uint256 private constant CAST = 30;
    uint256 private constant CAST_STOCHASTIC = 31;

    // Sets of operators: bit `op` stands for operator `op`.
    uint256 private constant COMPARISONS =
        (1 << EQ) | (1 << NE) | (1 << LT) | (1 << LE) | (1 << GT) | (1 << GE);
    uint256 private constant LOGIC = (1 << LOGICAL_AND) | (1 << LOGICAL_OR) | (1 << LOGICAL_NOT);
    /// @dev Operators of f32 and of i64.
    uint256 private constant NUMBERS = (1 << ADD) | (1 << SUB) | (1 << MUL) | (1 << NEG) | COMPARISONS;
    uint256 private constant FLOATS =
        (1 << DIV) | (1 << MAXIMUM) | (1 << MINIMUM) | (1 << SQRT) | (1 << RSQRT);
    uint256 private constant ALL =
        NUMBERS | FLOATS | LOGIC | (1 << WHERE) | (1 << CAST) | (1 << CAST_STOCHASTIC);
    uint256 private constant UNARY =
        (1 << NEG) | (1 << SQRT) | (1 << RSQRT) | (1 << LOGICAL_NOT) | (1 << CAST);

    uint256 private constant ONE = 0x3F800000;

    // ------------------------------------------------------------------ parts that depend on the arithmetic

    function _modes() internal pure virtual returns (uint256) {
        return Cases.ORDERED | Cases.EXACT;
    }

    /// @dev A comparison is 0 or 1.
    function _ofFloats(uint256 op, uint256 a, uint256 b, uint8) internal pure virtual returns (uint256) {
        if (op == ADD) return Float32.add(a, b);
        if (op == SUB) return Float32.sub(a, b);
        if (op == MUL) return Float32.mul(a, b);
        if (op == DIV) return Float32.div(a, b);
        if (op == NEG) return Float32.neg(a);
        if (op == MAXIMUM) return Float32.maximum(a, b);
        if (op == MINIMUM) return Float32.minimum(a, b);
        if (op == SQRT) return Float32.sqrt(a);
        if (op == RSQRT) return Float32.div(ONE, Float32.sqrt(a));
        if (op == EQ) return _bit(Float32.eq(a, b));
        if (op == NE) return _bit(!Float32.eq(a, b));
        if (op == LT) return _bit(Float32.lt(a, b));
        if (op == LE) return _bit(Float32.le(a, b));
        if (op == GT) return _bit(Float32.lt(b, a));
        return _bit(Float32.le(b, a));
    }

    /// @dev Casts i64 to f32.
    function _toFloat(uint256 a, uint8) internal pure virtual returns (uint256) {
        return Convert.i64ToF32(a);
    }

    // ------------------------------------------------------------------ cases

    function _check(Case calldata which) internal pure override {
        uint256 op = which.op;
        Cases.mine(which, ALL, _modes());
        uint256 inputs = _arity(op);
        Broadcast.check(which, inputs);
        uint8 dtype = Specs.get(which.inputs, 0).dtype();
        uint256 read = 0;
        if (op == WHERE) {
            if (dtype != Cases.BOOL) Cases.notMine(which);
            dtype = Specs.get(which.inputs, 1).dtype();
            Cases.input(which, 2, dtype);
        } else if (op == CAST) {
            uint8 to;
            (to, read) = Attributes.code(which.attributes, 0);
            if (!_casts(dtype, to)) Cases.notMine(which);
            dtype = to;
        } else if (op == CAST_STOCHASTIC) {
            if (dtype != Cases.F32) Cases.notMine(which);
            Cases.input(which, 1, Cases.I64);
            dtype = Cases.BF16;
        } else {
            if (!_among(op, _operators(dtype))) Cases.notMine(which);
            Cases.input(which, inputs - 1, dtype);
            if (_among(op, COMPARISONS)) dtype = Cases.BOOL;
        }
        Cases.output(which, 0, dtype);
        Attributes.end(which.attributes, read);
    }

    /// @dev Returns the operators, but casts and `where`, on operands of a dtype: none on one that does not exist.
    function _operators(uint8 dtype) private pure returns (uint256) {
        if (dtype == Cases.F32) return NUMBERS | FLOATS;
        if (dtype == Cases.I64) return NUMBERS;
        return dtype == Cases.BOOL ? LOGIC : 0;
    }

    /// @dev Returns whether `cast` has this pair of dtypes, both of which exist: bf16 is cast from and to f32 only.
    function _casts(uint8 from, uint8 to) private pure returns (bool) {
        if (from == Cases.BF16) return to == Cases.BF16 || to == Cases.F32;
        if (to == Cases.BF16) return from == Cases.F32;
        return from != 0 && from < Cases.BF16 && to != 0 && to < Cases.BF16;
    }

    /// @dev Returns an operator's number of inputs.
    function _arity(uint256 op) private pure returns (uint256) {
        return _among(op, UNARY) ? 1 : op == WHERE ? 3 : 2;
    }

    function _among(uint256 op, uint256 set) private pure returns (bool) {
        return (set >> op) & 1 != 0;
    }

    // ------------------------------------------------------------------ values

    function _value(Case calldata which, Opened[] calldata opened)
        internal
        pure
        override
        returns (uint256 bits, uint256 taken)
    {
        _check(which);
        uint256 op = which.op;
        taken = _arity(op);
        uint256 a = Broadcast.read(which, opened, 0);
        uint256 b = taken > 1 ? Broadcast.read(which, opened, 1) : 0;
        uint8 dtype = Specs.get(which.inputs, 0).dtype();
        if (op == WHERE) {
            uint256 c = Broadcast.read(which, opened, 2);
            bits = a != 0 ? b : c;
        } else if (op == CAST) {
            bits = _cast(a, dtype, Specs.get(which.outputs, 0).dtype(), which.mode);
        } else if (op == CAST_STOCHASTIC) {
            bits = Convert.f32ToBf16(a, b);
        } else if (dtype == Cases.F32) {
            bits = _ofFloats(op, a, b, which.mode);
        } else if (dtype == Cases.I64) {
            bits = _ofIntegers(op, a, b);
        } else {
            bits = op == LOGICAL_AND ? a & b : op == LOGICAL_OR ? a | b : a ^ 1;
        }
    }

    /// @dev Modulo 2^64.
    function _ofIntegers(uint256 op, uint256 a, uint256 b) private pure returns (uint256) {
        unchecked {
            if (op == ADD) return uint64(a + b);
            if (op == SUB) return uint64(a - b);
            if (op == MUL) return uint64(a * b);
            if (op == NEG) return uint64(0 - a);
            if (op == EQ) return _bit(a == b);
            if (op == NE) return _bit(a != b);
            int64 x = int64(uint64(a));
            int64 y = int64(uint64(b));
            if (op == LT) return _bit(x < y);
            if (op == LE) return _bit(x <= y);
            if (op == GT) return _bit(x > y);
            return _bit(x >= y);
        }
    }

    function _cast(uint256 a, uint8 from, uint8 to, uint8 mode) private pure returns (uint256) {
        if (from == to) return a;
        if (to == Cases.BF16) return Convert.f32ToBf16(a);
        if (from == Cases.BF16) return a << 16;
        // NOTE: -0 is the only binary32 zero with a bit set.
        if (to == Cases.BOOL) return _bit(a != 0 && !(from == Cases.F32 && a == Float32.SIGN));
        if (from == Cases.BOOL) return to == Cases.F32 ? a * ONE : a;
        return to == Cases.F32 ? _toFloat(a, mode) : Convert.f32ToI64(a);
    }

    function _bit(bool holds) private pure returns (uint256) {
        return holds ? 1 : 0;
    }
}
