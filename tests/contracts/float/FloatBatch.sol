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
    /// @dev Each operation takes three operands; those it does not have are 0.
    struct Operation {
        function(uint256, uint256, uint256) pure returns (uint256) apply_;
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
            _put(results, i, operation.bitsOut, operation.apply_(a, b, c));
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
            operation.apply_(a, b, c);
            _put(results, i, 32, before - gasleft());
        }
    }

    function _operation(bytes32 name) private pure returns (Operation memory) {
        if (name == "add32") return Operation(_add32, 2, 32, 32);
        if (name == "sub32") return Operation(_sub32, 2, 32, 32);
        if (name == "mul32") return Operation(_mul32, 2, 32, 32);
        if (name == "fma32") return Operation(_fma32, 3, 32, 32);
        if (name == "div32") return Operation(_div32, 2, 32, 32);
        if (name == "sqrt32") return Operation(_sqrt32, 1, 32, 32);
        if (name == "neg32") return Operation(_neg32, 1, 32, 32);
        if (name == "eq32") return Operation(_eq32, 2, 32, 8);
        if (name == "lt32") return Operation(_lt32, 2, 32, 8);
        if (name == "le32") return Operation(_le32, 2, 32, 8);
        if (name == "key32") return Operation(_key32, 1, 32, 32);
        if (name == "maximum32") return Operation(_maximum32, 2, 32, 32);
        if (name == "minimum32") return Operation(_minimum32, 2, 32, 32);
        if (name == "add64") return Operation(_add64, 2, 64, 64);
        if (name == "sub64") return Operation(_sub64, 2, 64, 64);
        if (name == "mul64") return Operation(_mul64, 2, 64, 64);
        if (name == "fma64") return Operation(_fma64, 3, 64, 64);
        if (name == "div64") return Operation(_div64, 2, 64, 64);
        if (name == "sqrt64") return Operation(_sqrt64, 1, 64, 64);
        if (name == "neg64") return Operation(_neg64, 1, 64, 64);
        if (name == "eq64") return Operation(_eq64, 2, 64, 8);
        if (name == "lt64") return Operation(_lt64, 2, 64, 8);
        if (name == "le64") return Operation(_le64, 2, 64, 8);
        if (name == "key64") return Operation(_key64, 1, 64, 64);
        if (name == "maximum64") return Operation(_maximum64, 2, 64, 64);
        if (name == "minimum64") return Operation(_minimum64, 2, 64, 64);
        if (name == "i64ToF32") return Operation(_i64ToF32, 1, 64, 32);
        if (name == "i64ToF64") return Operation(_i64ToF64, 1, 64, 64);
        if (name == "f32ToI64") return Operation(_f32ToI64, 1, 32, 64);
        if (name == "f32ToF64") return Operation(_f32ToF64, 1, 32, 64);
        if (name == "f64ToF32") return Operation(_f64ToF32, 1, 64, 32);
        if (name == "generalFma32") return Operation(_generalFma32, 3, 32, 32);
        if (name == "generalDiv32") return Operation(_generalDiv32, 2, 32, 32);
        if (name == "generalSqrt32") return Operation(_generalSqrt32, 1, 32, 32);
        if (name == "generalFma64") return Operation(_generalFma64, 3, 64, 64);
        if (name == "generalDiv64") return Operation(_generalDiv64, 2, 64, 64);
        if (name == "generalSqrt64") return Operation(_generalSqrt64, 1, 64, 64);
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

    function _add32(uint256 a, uint256 b, uint256) private pure returns (uint256) {
        return Float32.add(a, b);
    }

    function _sub32(uint256 a, uint256 b, uint256) private pure returns (uint256) {
        return Float32.sub(a, b);
    }

    function _mul32(uint256 a, uint256 b, uint256) private pure returns (uint256) {
        return Float32.mul(a, b);
    }

    function _div32(uint256 a, uint256 b, uint256) private pure returns (uint256) {
        return Float32.div(a, b);
    }

    function _maximum32(uint256 a, uint256 b, uint256) private pure returns (uint256) {
        return Float32.maximum(a, b);
    }

    function _minimum32(uint256 a, uint256 b, uint256) private pure returns (uint256) {
        return Float32.minimum(a, b);
    }

    function _fma32(uint256 a, uint256 b, uint256 c) private pure returns (uint256) {
        return Float32.fma(a, b, c);
    }

    function _sqrt32(uint256 a, uint256, uint256) private pure returns (uint256) {
        return Float32.sqrt(a);
    }

    function _neg32(uint256 a, uint256, uint256) private pure returns (uint256) {
        return Float32.neg(a);
    }

    function _eq32(uint256 a, uint256 b, uint256) private pure returns (uint256) {
        return Float32.eq(a, b) ? 1 : 0;
    }

    function _lt32(uint256 a, uint256 b, uint256) private pure returns (uint256) {
        return Float32.lt(a, b) ? 1 : 0;
    }

    function _le32(uint256 a, uint256 b, uint256) private pure returns (uint256) {
        return Float32.le(a, b) ? 1 : 0;
    }

    function _key32(uint256 a, uint256, uint256) private pure returns (uint256) {
        return uint256(Float32.key(a));
    }

    function _generalFma32(uint256 a, uint256 b, uint256 c) private pure returns (uint256) {
        return FloatGeneral.fma(a, b, c, 23, 255);
    }

    function _generalDiv32(uint256 a, uint256 b, uint256) private pure returns (uint256) {
        return FloatGeneral.div(a, b, 23, 255);
    }

    function _generalSqrt32(uint256 a, uint256, uint256) private pure returns (uint256) {
        return FloatGeneral.sqrt(a, 23, 255);
    }

    function _add64(uint256 a, uint256 b, uint256) private pure returns (uint256) {
        return Float64.add(a, b);
    }

    function _sub64(uint256 a, uint256 b, uint256) private pure returns (uint256) {
        return Float64.sub(a, b);
    }

    function _mul64(uint256 a, uint256 b, uint256) private pure returns (uint256) {
        return Float64.mul(a, b);
    }

    function _div64(uint256 a, uint256 b, uint256) private pure returns (uint256) {
        return Float64.div(a, b);
    }

    function _maximum64(uint256 a, uint256 b, uint256) private pure returns (uint256) {
        return Float64.maximum(a, b);
    }

    function _minimum64(uint256 a, uint256 b, uint256) private pure returns (uint256) {
        return Float64.minimum(a, b);
    }

    function _fma64(uint256 a, uint256 b, uint256 c) private pure returns (uint256) {
        return Float64.fma(a, b, c);
    }

    function _sqrt64(uint256 a, uint256, uint256) private pure returns (uint256) {
        return Float64.sqrt(a);
    }

    function _neg64(uint256 a, uint256, uint256) private pure returns (uint256) {
        return Float64.neg(a);
    }

    function _eq64(uint256 a, uint256 b, uint256) private pure returns (uint256) {
        return Float64.eq(a, b) ? 1 : 0;
    }

    function _lt64(uint256 a, uint256 b, uint256) private pure returns (uint256) {
        return Float64.lt(a, b) ? 1 : 0;
    }

    function _le64(uint256 a, uint256 b, uint256) private pure returns (uint256) {
        return Float64.le(a, b) ? 1 : 0;
    }

    function _key64(uint256 a, uint256, uint256) private pure returns (uint256) {
        return uint256(Float64.key(a));
    }

    function _generalFma64(uint256 a, uint256 b, uint256 c) private pure returns (uint256) {
        return FloatGeneral.fma(a, b, c, 52, 2047);
    }

    function _generalDiv64(uint256 a, uint256 b, uint256) private pure returns (uint256) {
        return FloatGeneral.div(a, b, 52, 2047);
    }

    function _generalSqrt64(uint256 a, uint256, uint256) private pure returns (uint256) {
        return FloatGeneral.sqrt(a, 52, 2047);
    }

    function _i64ToF32(uint256 a, uint256, uint256) private pure returns (uint256) {
        return Convert.i64ToF32(a);
    }

    function _i64ToF64(uint256 a, uint256, uint256) private pure returns (uint256) {
        return Convert.i64ToF64(a);
    }

    function _f32ToI64(uint256 a, uint256, uint256) private pure returns (uint256) {
        return Convert.f32ToI64(a);
    }

    function _f32ToF64(uint256 a, uint256, uint256) private pure returns (uint256) {
        return Convert.f32ToF64(a);
    }

    function _f64ToF32(uint256 a, uint256, uint256) private pure returns (uint256) {
        return Convert.f64ToF32(a);
    }
}
