// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Cases} from "../Cases.sol";
import {ContractionRule} from "../ContractionRule.sol";
import {Entry} from "../IRule.sol";
import {ExactSums} from "./ExactSums.sol";

/// @title ExactContractions
/// @notice Contractions in the mode exact: sums of products (ExactSums).
contract ExactContractions is ContractionRule {
    function _modes() internal pure override returns (uint256) {
        return Cases.EXACT;
    }

    function _size(bool) internal pure override returns (uint256) {
        return ExactSums.BYTES;
    }

    function _next(uint256, bytes calldata state) internal pure override returns (bytes memory) {
        return ExactSums.same(state);
    }

    function _next(uint256, bytes calldata state, uint256 a, uint256 b)
        internal
        pure
        override
        returns (bytes memory)
    {
        return ExactSums.plus(state, a, b);
    }

    /// @dev There are no logs in exact, so the entry is ignored.
    function _element(uint8, bytes calldata state, Entry calldata, bool narrow)
        internal
        pure
        override
        returns (uint256)
    {
        return narrow ? ExactSums.narrowElement(state) : ExactSums.element(state);
    }
}
