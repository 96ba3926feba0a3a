// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Dispute} from "./ICourt.sol";
import {Submission} from "./IPanel.sol";
import {Evidence, Exhibit, LogProof, MatchTerms, Position, Reason} from "./IReferee.sol";
import {Program} from "./JobTypes.sol";

/// @title IJudge
/// @notice What follows from shown evidence: each view has the arguments of the referee's move of the same name, and that referee
/// asks it with them. It keeps nothing, and its errors are those of IReferee.
///
/// ASSUMPTIONS
/// - The caller is a referee, has checked that the match terms and the position are the match's, and tells truly where that stands.
interface IJudge {
    // ------------------------------------------------------------------ views

    /// @notice Who has a record that is not what the program says.
    function judgeStructure(
        uint256 matchId,
        MatchTerms calldata matchTerms,
        Position calldata here,
        Exhibit calldata exhibit
    ) external view returns (uint8 losers, Reason reason);

    /// @notice Who has not the true input.
    function judgeInput(
        uint256 matchId,
        MatchTerms calldata matchTerms,
        Position calldata here,
        Exhibit calldata exhibit,
        Evidence calldata evidence
    ) external view returns (uint8 losers, Reason reason);

    /// @notice Who has not the job's log.
    function judgeLog(
        uint256 matchId,
        MatchTerms calldata matchTerms,
        Position calldata here,
        Exhibit calldata exhibit,
        LogProof calldata proof
    ) external view returns (uint8 losers, Reason reason);

    /// @notice What the panel is to hear.
    function submit(
        uint256 matchId,
        MatchTerms calldata matchTerms,
        Position calldata here,
        Exhibit calldata exhibit
    ) external view returns (Submission memory, Dispute memory);

    /// @notice See IReferee.
    function check(Program calldata program) external view returns (bytes32);
}
