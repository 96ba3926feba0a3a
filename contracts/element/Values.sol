// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Float32} from "../float/Float32.sol";
import {Cases} from "./Cases.sol";

/// @title Values
/// @notice Elements as bits (docs/opset.md, section 1). The dtype exists.
library Values {
    /// @notice Returns the number of bits of an element.
    function width(uint8 dtype) internal pure returns (uint256) {
        if (dtype == Cases.F32) return 32;
        if (dtype == Cases.I64) return 64;
        return dtype == Cases.BF16 ? 16 : 1;
    }

    /// @notice Returns an element's bits; every NaN is 0x7FC00000, in bf16 0x7FC0.
    function canonical(uint8 dtype, uint256 bits) internal pure returns (uint256) {
        if (dtype == Cases.F32) return Float32.isNan(bits) ? Float32.NAN : bits;
        return dtype == Cases.BF16 && Float32.isNan(bits << 16) ? Float32.NAN >> 16 : bits;
    }
}
