// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Float32} from "../float/Float32.sol";
import {Cases} from "./Cases.sol";

/// @title Order
/// @notice The order of values, as in docs/opset.md, section 2.
library Order {
    uint256 internal constant MINUS_INFINITY = 0xFF800000;
    uint256 internal constant LOWEST = 1 << 63;

    /// @notice Returns whether `a` is strictly larger than `b`. Both are below 2^64.
    function larger(uint8 dtype, uint256 a, uint256 b) internal pure returns (bool) {
        if (dtype == Cases.I64) return int64(uint64(a)) > int64(uint64(b));
        return _key(a) > _key(b);
    }

    /// @dev NOTE: a state has 64 bits for a value, and a party may post a state that no chain reaches. Its order is
    /// that of `scalar.order_key`, so that a step is defined for it.
    function _key(uint256 bits) private pure returns (int256 key) {
        unchecked {
            if (Float32.isNan(uint32(bits))) return 0x7FFFFFFF;
            key = int256(bits) - int256((bits & Float32.SIGN) << 1);
            if (key < 0) key ^= 0x7FFFFFFF;
        }
    }
}
