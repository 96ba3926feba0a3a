// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Cases} from "./Cases.sol";
import {Entry} from "./IRule.sol";
import {LaneSum} from "./LaneSum.sol";
import {ReductionRule} from "./ReductionRule.sol";

/// @title Reductions
/// @notice Reductions in repops-f32: `sum` of f32 by lanes and blocks (LaneSum).
contract Reductions is ReductionRule {
    function _modes() internal pure override returns (uint256) {
        return Cases.ORDERED;
    }

    function _size(uint256 items) internal pure override returns (uint256) {
        return LaneSum.stateBytes(items);
    }

    function _begin(uint256 items) internal pure override returns (bytes memory) {
        return LaneSum.begin(items);
    }

    function _item(uint256 items, uint256 t) internal pure override returns (uint256) {
        return LaneSum.item(items, t);
    }

    function _next(uint256 items, uint256 t, bytes calldata state, uint256 value)
        internal
        pure
        override
        returns (bytes memory)
    {
        return LaneSum.step(items, t, state, value);
    }

    /// @dev There are no logs in repops-f32, so the entry is ignored.
    function _element(uint8, bytes calldata state, Entry calldata) internal pure override returns (uint256) {
        return LaneSum.finish(state);
    }
}
