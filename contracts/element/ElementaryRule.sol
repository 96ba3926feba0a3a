// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Attributes} from "./Attributes.sol";
import {Broadcast} from "./Broadcast.sol";
import {Cases} from "./Cases.sol";
import {Case, Opened} from "./IRule.sol";
import {Point} from "./Point.sol";

/// @title ElementaryRule
/// @notice What the families of elementary functions have in common: f32 operands, which broadcast, and no attributes.
abstract contract ElementaryRule is Point {
    uint256 internal constant POW = 17;

    function _check(Case calldata which) internal pure override {
        Cases.mine(which, _operators());
        Broadcast.check(which, which.op == POW ? 2 : 1);
        Cases.input(which, 0, Cases.F32);
        Cases.input(which, which.inputs.length - 1, Cases.F32);
        Cases.output(which, 0, Cases.F32);
        Attributes.end(which.attributes, 0);
    }

    function _value(Case calldata which, Opened[] calldata opened)
        internal
        pure
        override
        returns (uint256 bits, uint256 taken)
    {
        _check(which);
        taken = which.inputs.length;
        uint256 a = Broadcast.read(which, opened, 0);
        bits = _function(which.op, a, taken > 1 ? Broadcast.read(which, opened, 1) : 0);
    }

    /// @dev Bit `op` stands for operator `op`.
    function _operators() internal pure virtual returns (uint256);

    /// @dev Of one of these operators. Only `pow` has a `b`.
    function _function(uint256 op, uint256 a, uint256 b) internal pure virtual returns (uint256);
}
