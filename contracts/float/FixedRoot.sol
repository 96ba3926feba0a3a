// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {ElementaryBracket} from "./ElementaryBracket.sol";

/// @title FixedRoot
library FixedRoot {
    /// @notice Returns the integer part of the square root of x, `0 < x < 2^254`.
    /// @dev Newton's iteration from above descends to it in at most 9 rounds.
    function root(uint256 x) internal pure returns (uint256 r) {
        unchecked {
            // SAFETY: 2^ceil(length / 2) is above the root, and never 0.
            uint256 next = 1 << ((ElementaryBracket.bitLength(x) + 1) >> 1);
            do {
                r = next;
                next = (r + x / r) >> 1;
            } while (next < r);
        }
    }
}
