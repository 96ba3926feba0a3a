// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Kulisch} from "../../float/Kulisch.sol";
import {Cases} from "../Cases.sol";
import {Entry} from "../IRule.sol";
import {RowsRule} from "../RowsRule.sol";
import {ExactSums} from "./ExactSums.sol";

/// @title ExactRows
/// @notice `take`, and `scatter_add` in the mode exact: the base and what is added to it (ExactSums).
contract ExactRows is RowsRule {
    function _modes() internal pure override returns (uint256) {
        return Cases.EXACT;
    }

    function _size() internal pure override returns (uint256) {
        return ExactSums.BYTES;
    }

    function _next(uint256, bytes calldata state, bool exists, uint256 value)
        internal
        pure
        override
        returns (bytes memory)
    {
        return exists ? ExactSums.plus(state, value, Kulisch.ONE) : ExactSums.same(state);
    }

    /// @dev There are no logs in exact, so the entry is ignored.
    function _element(uint8, bytes calldata state, Entry calldata) internal pure override returns (uint256) {
        return ExactSums.element(state);
    }
}
