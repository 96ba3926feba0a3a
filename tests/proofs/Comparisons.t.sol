// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Float32} from "contracts/float/Float32.sol";
import {Float64} from "contracts/float/Float64.sol";

/// @notice A number of a binary format of IEEE 754-2019, section 3.4, as its three fields.
struct Fields {
    uint256 sign;
    uint256 exponent;
    uint256 fraction;
    bool nan;
    bool zero;
}

/// @title ComparisonsProof
/// @notice For all operands: the comparisons are those of IEEE 754-2019, section 5.11, by sign, exponent, fraction.
contract ComparisonsProof {
    function check_lt32(uint32 a, uint32 b) external pure {
        assert(Float32.lt(a, b) == _less(_fields32(a), _fields32(b)));
    }

    function check_le32(uint32 a, uint32 b) external pure {
        (Fields memory x, Fields memory y) = (_fields32(a), _fields32(b));
        assert(Float32.le(a, b) == (_less(x, y) || _same(x, y)));
    }

    function check_eq32(uint32 a, uint32 b) external pure {
        assert(Float32.eq(a, b) == _same(_fields32(a), _fields32(b)));
    }

    function check_lt64(uint64 a, uint64 b) external pure {
        assert(Float64.lt(a, b) == _less(_fields64(a), _fields64(b)));
    }

    function check_le64(uint64 a, uint64 b) external pure {
        (Fields memory x, Fields memory y) = (_fields64(a), _fields64(b));
        assert(Float64.le(a, b) == (_less(x, y) || _same(x, y)));
    }

    function check_eq64(uint64 a, uint64 b) external pure {
        assert(Float64.eq(a, b) == _same(_fields64(a), _fields64(b)));
    }

    function _fields32(uint256 a) private pure returns (Fields memory f) {
        (f.sign, f.exponent, f.fraction) = (a >> 31, (a >> 23) & 0xFF, a & 0x7FFFFF);
        f.nan = f.exponent == 0xFF && f.fraction != 0;
        f.zero = f.exponent == 0 && f.fraction == 0;
    }

    function _fields64(uint256 a) private pure returns (Fields memory f) {
        (f.sign, f.exponent, f.fraction) = (a >> 63, (a >> 52) & 0x7FF, a & 0xFFFFFFFFFFFFF);
        f.nan = f.exponent == 0x7FF && f.fraction != 0;
        f.zero = f.exponent == 0 && f.fraction == 0;
    }

    function _less(Fields memory x, Fields memory y) private pure returns (bool) {
        if (x.nan || y.nan || (x.zero && y.zero)) return false;
        if (x.sign != y.sign) return x.sign == 1;
        return x.sign == 0 ? _smaller(x, y) : _smaller(y, x);
    }

    /// @dev Returns whether the absolute value is smaller.
    function _smaller(Fields memory x, Fields memory y) private pure returns (bool) {
        return x.exponent < y.exponent || (x.exponent == y.exponent && x.fraction < y.fraction);
    }

    function _same(Fields memory x, Fields memory y) private pure returns (bool) {
        if (x.nan || y.nan) return false;
        if (x.zero && y.zero) return true;
        return x.sign == y.sign && x.exponent == y.exponent && x.fraction == y.fraction;
    }
}
