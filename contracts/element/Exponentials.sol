// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Erf} from "../float/Erf.sol";
import {Exp} from "../float/Exp.sol";
import {Tanh} from "../float/Tanh.sol";
import {ElementaryRule} from "./ElementaryRule.sol";

/// @title Exponentials
/// @notice `exp`, `erf` and `tanh` (docs/opset.md, section 4).
contract Exponentials is ElementaryRule {
    uint256 private constant EXP = 9;
    uint256 private constant ERF = 12;
    uint256 private constant TANH = 13;

    function _operators() internal pure override returns (uint256) {
        return (1 << EXP) | (1 << ERF) | (1 << TANH);
    }

    function _bracket(uint256 op, uint256 a, uint256)
        internal
        pure
        override
        returns (uint256, uint256, int256, uint256)
    {
        return op == EXP ? Exp.bracket(a) : op == ERF ? Erf.bracket(a) : Tanh.bracket(a);
    }
}
