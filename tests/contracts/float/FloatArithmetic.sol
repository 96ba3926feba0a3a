// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Convert} from "contracts/float/Convert.sol";
import {Float32} from "contracts/float/Float32.sol";
import {Float64} from "contracts/float/Float64.sol";
import {FloatGeneral} from "contracts/float/FloatGeneral.sol";

/// @notice Float32 as a contract, so that tests which call it in many places compile it once.
contract Arithmetic32 {
    function add(uint256 a, uint256 b) external pure returns (uint256) {
        return Float32.add(a, b);
    }

    function sub(uint256 a, uint256 b) external pure returns (uint256) {
        return Float32.sub(a, b);
    }

    function mul(uint256 a, uint256 b) external pure returns (uint256) {
        return Float32.mul(a, b);
    }

    function fma(uint256 a, uint256 b, uint256 c) external pure returns (uint256) {
        return Float32.fma(a, b, c);
    }

    function div(uint256 a, uint256 b) external pure returns (uint256) {
        return Float32.div(a, b);
    }

    function sqrt(uint256 a) external pure returns (uint256) {
        return Float32.sqrt(a);
    }

    function neg(uint256 a) external pure returns (uint256) {
        return Float32.neg(a);
    }

    function maximum(uint256 a, uint256 b) external pure returns (uint256) {
        return Float32.maximum(a, b);
    }

    function minimum(uint256 a, uint256 b) external pure returns (uint256) {
        return Float32.minimum(a, b);
    }

    function eq(uint256 a, uint256 b) external pure returns (bool) {
        return Float32.eq(a, b);
    }

    function lt(uint256 a, uint256 b) external pure returns (bool) {
        return Float32.lt(a, b);
    }

    function le(uint256 a, uint256 b) external pure returns (bool) {
        return Float32.le(a, b);
    }

    function key(uint256 a) external pure returns (int256) {
        return Float32.key(a);
    }

    function f32ToI64(uint256 a) external pure returns (uint256) {
        return Convert.f32ToI64(a);
    }

    function i64ToF32(uint256 a) external pure returns (uint256) {
        return Convert.i64ToF32(a);
    }
}

/// @notice Float64 as a contract, so that tests which call it in many places compile it once.
contract Arithmetic64 {
    function add(uint256 a, uint256 b) external pure returns (uint256) {
        return Float64.add(a, b);
    }

    function sub(uint256 a, uint256 b) external pure returns (uint256) {
        return Float64.sub(a, b);
    }

    function mul(uint256 a, uint256 b) external pure returns (uint256) {
        return Float64.mul(a, b);
    }

    function fma(uint256 a, uint256 b, uint256 c) external pure returns (uint256) {
        return Float64.fma(a, b, c);
    }

    function div(uint256 a, uint256 b) external pure returns (uint256) {
        return Float64.div(a, b);
    }

    function sqrt(uint256 a) external pure returns (uint256) {
        return Float64.sqrt(a);
    }

    function neg(uint256 a) external pure returns (uint256) {
        return Float64.neg(a);
    }

    function maximum(uint256 a, uint256 b) external pure returns (uint256) {
        return Float64.maximum(a, b);
    }

    function minimum(uint256 a, uint256 b) external pure returns (uint256) {
        return Float64.minimum(a, b);
    }

    function eq(uint256 a, uint256 b) external pure returns (bool) {
        return Float64.eq(a, b);
    }

    function lt(uint256 a, uint256 b) external pure returns (bool) {
        return Float64.lt(a, b);
    }

    function le(uint256 a, uint256 b) external pure returns (bool) {
        return Float64.le(a, b);
    }

    function key(uint256 a) external pure returns (int256) {
        return Float64.key(a);
    }

    function i64ToF64(uint256 a) external pure returns (uint256) {
        return Convert.i64ToF64(a);
    }

    function f32ToF64(uint256 a) external pure returns (uint256) {
        return Convert.f32ToF64(a);
    }

    function f64ToF32(uint256 a) external pure returns (uint256) {
        return Convert.f64ToF32(a);
    }

    function generalAdd(uint256 a, uint256 b) external pure returns (uint256) {
        return FloatGeneral.add(a, b, 52, 2047);
    }

    function generalMul(uint256 a, uint256 b) external pure returns (uint256) {
        return FloatGeneral.mul(a, b, 52, 2047);
    }

    function generalFma(uint256 a, uint256 b, uint256 c) external pure returns (uint256) {
        return FloatGeneral.fma(a, b, c, 52, 2047);
    }

    function generalDiv(uint256 a, uint256 b) external pure returns (uint256) {
        return FloatGeneral.div(a, b, 52, 2047);
    }

    function generalSqrt(uint256 a) external pure returns (uint256) {
        return FloatGeneral.sqrt(a, 52, 2047);
    }
}
