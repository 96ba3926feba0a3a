// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {LogBlock, Logs} from "contracts/commit/Logs.sol";
import {Entry} from "contracts/element/IRule.sol";

/// @notice The library `Logs` alone.
contract LogReader {
    function entryOf(bytes32 log, uint256 count, uint256 element, LogBlock calldata shown)
        external
        view
        returns (Entry memory)
    {
        return Logs.entryOf(log, count, element, shown);
    }

    function readEntry(bytes calldata entries, uint256 place, uint256 places)
        external
        pure
        returns (Entry memory)
    {
        return Logs.readEntry(entries, place, places);
    }
}
