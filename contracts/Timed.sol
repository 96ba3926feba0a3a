// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {ITimed, ITimekeeper} from "./interfaces/ITimekeeper.sol";

/// @title Timed
/// @notice A contract that uses the time of a timekeeper, and no other.
abstract contract Timed is ITimed {
    ITimekeeper public immutable TIME;

    constructor(ITimekeeper keeper) {
        TIME = keeper;
    }

    /// @dev Returns the time in seconds. NOTE: every move begins with this call, so it takes no memory and little code.
    function _time() internal view returns (uint256 instant) {
        ITimekeeper keeper = TIME;
        bytes4 selector = ITimekeeper.time.selector;
        bool told;
        assembly ("memory-safe") {
            mstore(0x00, selector)
            // NOTE: arguments are evaluated from the last: first the call, then the size of its answer.
            told := and(gt(returndatasize(), 0x1f), staticcall(gas(), keeper, 0x00, 0x04, 0x00, 0x20))
            instant := mload(0x00)
        }
        if (!told) revert NoTime(keeper);
    }
}
