// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Convert} from "contracts/float/Convert.sol";
import {Float32} from "contracts/float/Float32.sol";
import {Float64} from "contracts/float/Float64.sol";
import {FloatGeneral} from "contracts/float/FloatGeneral.sol";

/// @notice The arithmetic over many operands in one call: for tests against a processor, and for measuring gas.
///
/// Operands are big-endian and concatenated, one, two or three for each result; so are results.
contract FloatBatch {
    /// @dev One of the functions is set: by the number of operands, and whether the result is a truth value.
    struct Operation {
        function(uint256) pure returns (uint256) one;
        function(uint256, uint256) pure returns (uint256) two;
        function(uint256, uint256) pure returns (bool) holds;
        function(uint256, uint256, uint256) pure returns (uint256) three;
        uint256 operands;
        uint256 bitsIn;
        uint256 bitsOut;
    }

    error UnknownOperation(bytes32 name);

    /// @notice Returns the result for each tuple of operands.
    function values(bytes32 name, bytes calldata packed) external pure returns (bytes memory results) {
        Operation memory operation = _operation(name);
        uint256 count = packed.length * 8 / operation.bitsIn / operation.operands;
        results = new bytes(count * operation.bitsOut / 8);
        for (uint256 i = 0; i < count; ++i) {
            (uint256 a, uint256 b, uint256 c) = _tuple(operation, packed, i);
            _put(results, i, operation.bitsOut, _apply(operation, a, b, c));
        }
    }

    /// @notice Returns the gas of each result as 32 bits. NOTE: this includes some 500 to 700 for finding the function,
    /// which do not depend on operands.
    function gas(bytes32 name, bytes calldata packed) external view returns (bytes memory results) {
        Operation memory operation = _operation(name);
        uint256 count = packed.length * 8 / operation.bitsIn / operation.operands;
        results = new bytes(count * 4);
        for (uint256 i = 0; i < count; ++i) {
            (uint256 a, uint256 b, uint256 c) = _tuple(operation, packed, i);
            uint256 before = gasleft();
            _apply(operation, a, b, c);
            _put(results, i, 32, before - gasleft());
        }
    }

    function _operation(bytes32 name) private pure returns (Operation memory) {
        if (name == "add32") return _two(Float32.add, 32);
        if (name == "sub32") return _two(Float32.sub, 32);
        if (name == "mul32") return _two(Float32.mul, 32);
        if (name == "fma32") return _three(Float32.fma, 32);
        if (name == "div32") return _two(Float32.div, 32);
        if (name == "sqrt32") return _one(Float32.sqrt, 32, 32);
        if (name == "neg32") return _one(Float32.neg, 32, 32);
        if (name == "eq32") return _holds(Float32.eq, 32);
        if (name == "lt32") return _holds(Float32.lt, 32);
        if (name == "le32") return _holds(Float32.le, 32);
        if (name == "key32") return _one(_key32, 32, 32);
        if (name == "maximum32") return _two(Float32.maximum, 32);
        if (name == "minimum32") return _two(Float32.minimum, 32);
        if (name == "add64") return _two(Float64.add, 64);
        if (name == "sub64") return _two(Float64.sub, 64);
        if (name == "mul64") return _two(Float64.mul, 64);
        if (name == "fma64") return _three(Float64.fma, 64);
        if (name == "div64") return _two(Float64.div, 64);
        if (name == "sqrt64") return _one(Float64.sqrt, 64, 64);
        if (name == "neg64") return _one(Float64.neg, 64, 64);
        if (name == "eq64") return _holds(Float64.eq, 64);
        if (name == "lt64") return _holds(Float64.lt, 64);
        if (name == "le64") return _holds(Float64.le, 64);
        if (name == "key64") return _one(_key64, 64, 64);
        if (name == "maximum64") return _two(Float64.maximum, 64);
        if (name == "minimum64") return _two(Float64.minimum, 64);
        if (name == "i64ToF32") return _one(Convert.i64ToF32, 64, 32);
        if (name == "i64ToF64") return _one(Convert.i64ToF64, 64, 64);
        if (name == "f32ToI64") return _one(Convert.f32ToI64, 32, 64);
        if (name == "f32ToF64") return _one(Convert.f32ToF64, 32, 64);
        if (name == "f64ToF32") return _one(Convert.f64ToF32, 64, 32);
        if (name == "generalFma32") return _three(_generalFma32, 32);
        if (name == "generalDiv32") return _two(_generalDiv32, 32);
        if (name == "generalSqrt32") return _one(_generalSqrt32, 32, 32);
        if (name == "generalFma64") return _three(_generalFma64, 64);
        if (name == "generalDiv64") return _two(_generalDiv64, 64);
        if (name == "generalSqrt64") return _one(_generalSqrt64, 64, 64);
        revert UnknownOperation(name);
    }

    function _tuple(Operation memory operation, bytes calldata packed, uint256 i)
        private
        pure
        returns (uint256 a, uint256 b, uint256 c)
    {
        uint256 bits = operation.bitsIn;
        uint256 operands = operation.operands;
        assembly ("memory-safe") {
            let bytes_ := shr(3, bits)
            let place := add(packed.offset, mul(mul(i, operands), bytes_))
            let drop := sub(256, bits)
            a := shr(drop, calldataload(place))
            if gt(operands, 1) { b := shr(drop, calldataload(add(place, bytes_))) }
            if gt(operands, 2) { c := shr(drop, calldataload(add(place, shl(1, bytes_)))) }
        }
    }

    /// @dev INVARIANT: results are written in ascending order, so the zeros after one are overwritten by the next. The
    /// word of the last one ends at most 31 bytes after the array, in space that Solidity has rounded up to words and
    /// that nothing else uses before this returns.
    function _put(bytes memory results, uint256 i, uint256 bits, uint256 value) private pure {
        assembly ("memory-safe") {
            mstore(add(add(results, 0x20), mul(i, shr(3, bits))), shl(sub(256, bits), value))
        }
    }

    function _apply(Operation memory operation, uint256 a, uint256 b, uint256 c)
        private
        pure
        returns (uint256)
    {
        if (operation.operands == 1) return operation.one(a);
        if (operation.operands == 3) return operation.three(a, b, c);
        if (operation.bitsOut == 8) return operation.holds(a, b) ? 1 : 0;
        return operation.two(a, b);
    }

    function _one(function(uint256) pure returns (uint256) apply_, uint256 bitsIn, uint256 bitsOut)
        private
        pure
        returns (Operation memory operation)
    {
        (operation.one, operation.operands, operation.bitsIn, operation.bitsOut) =
        (apply_, 1, bitsIn, bitsOut);
    }

    function _two(function(uint256, uint256) pure returns (uint256) apply_, uint256 bits)
        private
        pure
        returns (Operation memory operation)
    {
        (operation.two, operation.operands, operation.bitsIn, operation.bitsOut) = (apply_, 2, bits, bits);
    }

    function _holds(function(uint256, uint256) pure returns (bool) apply_, uint256 bits)
        private
        pure
        returns (Operation memory operation)
    {
        (operation.holds, operation.operands, operation.bitsIn, operation.bitsOut) = (apply_, 2, bits, 8);
    }

    function _three(function(uint256, uint256, uint256) pure returns (uint256) apply_, uint256 bits)
        private
        pure
        returns (Operation memory operation)
    {
        (operation.three, operation.operands, operation.bitsIn, operation.bitsOut) = (apply_, 3, bits, bits);
    }

    function _key32(uint256 a) private pure returns (uint256) {
        return uint256(Float32.key(a));
    }

    function _generalFma32(uint256 a, uint256 b, uint256 c) private pure returns (uint256) {
        return FloatGeneral.fma(a, b, c, 23, 255);
    }

    function _generalDiv32(uint256 a, uint256 b) private pure returns (uint256) {
        return FloatGeneral.div(a, b, 23, 255);
    }

    function _generalSqrt32(uint256 a) private pure returns (uint256) {
        return FloatGeneral.sqrt(a, 23, 255);
    }

    function _key64(uint256 a) private pure returns (uint256) {
        return uint256(Float64.key(a));
    }

    function _generalFma64(uint256 a, uint256 b, uint256 c) private pure returns (uint256) {
        return FloatGeneral.fma(a, b, c, 52, 2047);
    }

    function _generalDiv64(uint256 a, uint256 b) private pure returns (uint256) {
        return FloatGeneral.div(a, b, 52, 2047);
    }

    function _generalSqrt64(uint256 a) private pure returns (uint256) {
        return FloatGeneral.sqrt(a, 52, 2047);
    }
}
