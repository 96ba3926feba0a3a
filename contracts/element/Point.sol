// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Cases} from "./Cases.sol";
import {Case, Entry, IRule, Opened} from "./IRule.sol";
import {Operands} from "./Operands.sol";

/// @title Point
/// @notice A rule of operators whose elements take one step. The state is 8 bytes: the element, or the bits that decide
/// it; before the step it is 0.
abstract contract Point is IRule {
    uint16 private constant STATE_BYTES = 8;

    /// @inheritdoc IRule
    function begin(Case calldata which) external pure returns (uint64 steps, bytes memory first) {
        _check(which);
        return (1, new bytes(STATE_BYTES));
    }

    /// @inheritdoc IRule
    function step(Case calldata which, uint64 t, bytes calldata state, Opened[] calldata opened)
        external
        pure
        returns (bytes memory next)
    {
        (uint256 bits, uint256 taken) = _value(which, opened);
        Cases.step(t, 1, state.length, STATE_BYTES);
        Operands.end(opened, taken);
        // SAFETY: values are below 2^64.
        return abi.encodePacked(uint64(bits));
    }

    /// @inheritdoc IRule
    function finish(Case calldata which, bytes calldata state, Entry calldata entry)
        external
        pure
        returns (uint64 bits)
    {
        _check(which);
        Cases.state(state.length, STATE_BYTES);
        // SAFETY: values are below 2^64.
        return uint64(_element(which, uint64(bytes8(state)), entry));
    }

    /// @dev Reverts unless the case is one of this rule's operators.
    function _check(Case calldata which) internal pure virtual;

    /// @dev Returns the element of the state after the step. Without a log the entry is ignored.
    function _element(Case calldata, uint256 state, Entry calldata) internal pure virtual returns (uint256) {
        return state;
    }

    /// @dev Returns the state after the step, and how many operands were read for it. Reverts where `_check` does.
    function _value(Case calldata which, Opened[] calldata opened)
        internal
        pure
        virtual
        returns (uint256 bits, uint256 taken);
}
