// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Dispute, ICourt, ITrialClient} from "contracts/interfaces/ICourt.sol";

/// @notice Opens trials, and stores the result of each.
contract TrialClient is ITrialClient {
    struct Result {
        uint8 losers;
        bool late;
    }

    ICourt private immutable _court;
    mapping(uint256 id => Result) public results;

    constructor(ICourt court) {
        _court = court;
    }

    function open(uint256 id, address[2] calldata players, uint32 clock, Dispute calldata dispute)
        external
        returns (uint256)
    {
        return _court.open(id, players, clock, dispute);
    }

    function onTrialDecided(uint256 id, uint8 losers, bool late) external {
        require(msg.sender == address(_court));
        require(results[id].losers == 0);
        results[id] = Result({losers: losers, late: late});
    }
}
