// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Log} from "../float/Log.sol";
import {Pow} from "../float/Pow.sol";
import {ElementaryRule} from "./ElementaryRule.sol";

/// @title Logarithms
/// @notice `log`, `log1p` and `pow` (docs/opset.md, section 4).
contract Logarithms is ElementaryRule {
    uint256 private constant LOG = 10;
    uint256 private constant LOG1P = 16;

    function _operators() internal pure override returns (uint256) {
        return (1 << LOG) | (1 << LOG1P) | (1 << POW);
    }

    function _bracket(uint256 op, uint256 a, uint256 b)
        internal
        pure
        override
        returns (uint256, uint256, int256, uint256)
    {
        return op == LOG ? Log.bracket(a) : op == LOG1P ? Log.bracket1p(a) : Pow.bracket(a, b);
    }
}
