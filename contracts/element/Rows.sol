// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Float32} from "../float/Float32.sol";
import {Cases} from "./Cases.sol";
import {Entry} from "./IRule.sol";
import {RowsRule} from "./RowsRule.sol";

/// @title Rows
/// @notice `take` and `scatter_add` in repops-f32.
/// @dev State of `scatter_add`: the sum so far, 4 bytes.
contract Rows is RowsRule {
    function _modes() internal pure override returns (uint256) {
        return Cases.ORDERED;
    }

    function _size() internal pure override returns (uint256) {
        return 4;
    }

    function _begin() internal pure override returns (bytes memory) {
        return abi.encodePacked(uint32(Float32.SIGN));
    }

    function _next(uint256 t, bytes calldata state, bool exists, uint256 value)
        internal
        pure
        override
        returns (bytes memory)
    {
        if (!exists) return state;
        return abi.encodePacked(uint32(t == 0 ? value : Float32.add(uint32(bytes4(state)), value)));
    }

    /// @dev There are no logs in repops-f32, so the entry is ignored.
    function _element(uint8, bytes calldata state, Entry calldata) internal pure override returns (uint256) {
        return uint32(bytes4(state));
    }
}
