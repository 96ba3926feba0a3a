// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {HearingPhase} from "../interfaces/IPanel.sol";

/// @notice A hearing as it is stored, in words that are written together. Fields as in Hearing.
struct KeptHearing {
    address referee;
    uint40 until;
    HearingPhase phase;
    uint8 trials;
    uint8 side;
    uint8 losers;
    /// @dev Number of votes, of different records among them, and the number of the verdict's record from one.
    uint8 votes;
    uint8 records;
    uint8 verdict;
    // ---
    uint256 matchId;
    bytes32 file;
    // ---
    address player0;
    uint96 bond;
    // ---
    address player1;
    uint32 appealPeriod;
    uint8 appellant;
    // ---
    address defendant;
}

/// @notice A vote as it is stored: its record by its number from one.
struct KeptVote {
    address verifier;
    uint8 record;
    /// @dev True once the verifier has lost its bond for it.
    bool lost;
}
