// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Trig} from "../float/Trig.sol";
import {ElementaryRule} from "./ElementaryRule.sol";

/// @title Trigonometry
/// @notice `sin` and `cos` (docs/opset.md, section 4).
contract Trigonometry is ElementaryRule {
    uint256 private constant SIN = 14;
    uint256 private constant COS = 15;

    function _operators() internal pure override returns (uint256) {
        return (1 << SIN) | (1 << COS);
    }

    function _bracket(uint256 op, uint256 a, uint256)
        internal
        pure
        override
        returns (uint256, uint256, int256, uint256)
    {
        return op == SIN ? Trig.sinBracket(a) : Trig.cosBracket(a);
    }
}
