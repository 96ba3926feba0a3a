// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Float32} from "./Float32.sol";
import {Float64} from "./Float64.sol";
import {FloatGeneral} from "./FloatGeneral.sol";

/// @title Convert
/// @notice Conversions between kinds of numbers, as in `cast` of docs/opset.md, section 4. Numbers are words: f32 in
/// the low 32 bits, f64 in the low 64, i64 in the low 64 as two's complement. ASSUMPTION: the other bits of an argument
/// are 0; they are 0 in every result.
library Convert {
    /// @notice Converts to nearest, ties to even.
    function i64ToF32(uint256 a) internal pure returns (uint256) {
        (uint256 negative, uint256 magnitude) = _magnitude(a);
        return FloatGeneral.round(negative << 31, magnitude, 0, 23, 255);
    }

    /// @notice Converts to nearest, ties to even.
    function i64ToF64(uint256 a) internal pure returns (uint256) {
        (uint256 negative, uint256 magnitude) = _magnitude(a);
        return FloatGeneral.round(negative << 63, magnitude, 0, 52, 2047);
    }

    /// @notice Converts towards zero. NaN gives 0; at or above 2^63: 2^63 - 1; below -2^63: -2^63.
    function f32ToI64(uint256 a) internal pure returns (uint256 r) {
        unchecked {
            if (Float32.isNan(a)) return 0;
            bool negative = a & Float32.SIGN != 0;
            uint256 e = (a >> 23) & 0xFF;
            // 190 is the exponent of 2^63.
            if (e >= 190) return negative ? 0x8000000000000000 : 0x7FFFFFFFFFFFFFFF;
            // (2^23 + f) * 2^(e - 150); 0 below 1 (e < 127). The highest bit of a subnormal does not matter.
            r = (((a & 0x7FFFFF) | 0x800000) << e) >> 150;
            if (negative) r = (0 - r) & 0xFFFFFFFFFFFFFFFF;
        }
    }

    /// @notice Converts exactly; NaN gives the canonical NaN.
    function f32ToF64(uint256 a) internal pure returns (uint256) {
        unchecked {
            uint256 sign = (a & Float32.SIGN) << 32;
            a &= ~Float32.SIGN;
            // Below infinity and not subnormal: 1023 - 127 is the difference of the biases.
            if (a - 0x800000 < Float32.INFINITY - 0x800000) return sign | ((a << 29) + (896 << 52));
            if (a > Float32.INFINITY) return Float64.NAN;
            if (a == Float32.INFINITY) return sign | Float64.INFINITY;
            return sign | FloatGeneral.round(0, a, -149, 52, 2047);
        }
    }

    /// @notice Converts to nearest, ties to even, also to subnormal results; NaN gives the canonical NaN.
    function f64ToF32(uint256 a) internal pure returns (uint256) {
        unchecked {
            uint256 sign = (a & Float64.SIGN) >> 32;
            a &= ~Float64.SIGN;
            if (a > Float64.INFINITY) return Float32.NAN;
            if (a == Float64.INFINITY) return sign | Float32.INFINITY;
            // NOTE: subnormal numbers of binary64 are zero in binary32, with or without their highest bit.
            uint256 e = a >> 52;
            if (e == 0) return sign;
            return FloatGeneral.round(sign, a - ((e - 1) << 52), int256(e) - 1075, 23, 255);
        }
    }

    /// @notice Converts to bf16, the upper half of a binary32: to nearest, ties to even; NaN gives the canonical NaN.
    function f32ToBf16(uint256 a) internal pure returns (uint256) {
        // Half a unit of the last place, less one bit if that place is even: it carries where `a` is rounded up.
        return _upperHalf(a, 0x7FFF + (a >> 16 & 1));
    }

    /// @notice Converts to bf16, away from zero if the bits that are cut off and the last 16 of `r` add up to a carry.
    function f32ToBf16(uint256 a, uint256 r) internal pure returns (uint256) {
        return _upperHalf(a, r & 0xFFFF);
    }

    /// @dev Returns the upper half of `a + less`, where `less` is below 2^16. A carry out of the largest finite value
    /// gives infinity, and an infinity, whose other bits are 0, stays.
    function _upperHalf(uint256 a, uint256 less) private pure returns (uint256) {
        unchecked {
            return (Float32.isNan(a) ? Float32.NAN : a + less) >> 16;
        }
    }

    function _magnitude(uint256 a) private pure returns (uint256 negative, uint256 magnitude) {
        unchecked {
            negative = a >> 63;
            magnitude = negative == 0 ? a : (1 << 64) - a;
        }
    }
}
