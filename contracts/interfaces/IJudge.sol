// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Dispute} from "./ICourt.sol";
import {Submission} from "./IPanel.sol";
import {Evidence, Exhibit, LogProof, MatchTerms, Position, Reason} from "./IReferee.sol";
import {Program} from "./JobTypes.sol";

/// @title IJudge
/// @notice Judges evidence for a referee: each view takes the arguments of the referee's move of the same name, which
/// calls it with them. It stores nothing, and its errors are those of IReferee.
///
/// ASSUMPTIONS
/// - The caller is a referee, has checked that the match terms and the position are the match's, and reports the state
///   of the match truly.
interface IJudge {
    // ------------------------------------------------------------------ views

    /// @notice Finds the sides whose record is not what the program says.
    function judgeStructure(
        uint256 matchId,
        MatchTerms calldata matchTerms,
        Position calldata here,
        Exhibit calldata exhibit
    ) external view returns (uint8 losers, Reason reason);

    /// @notice Finds the sides whose input is not the true one.
    function judgeInput(
        uint256 matchId,
        MatchTerms calldata matchTerms,
        Position calldata here,
        Exhibit calldata exhibit,
        Evidence calldata evidence
    ) external view returns (uint8 losers, Reason reason);

    /// @notice Finds the sides whose log is not the job's.
    function judgeLog(
        uint256 matchId,
        MatchTerms calldata matchTerms,
        Position calldata here,
        Exhibit calldata exhibit,
        LogProof calldata proof
    ) external view returns (uint8 losers, Reason reason);

    /// @notice Returns what the panel hears: the operator in dispute, and both records of it.
    function submit(
        uint256 matchId,
        MatchTerms calldata matchTerms,
        Position calldata here,
        Exhibit calldata exhibit
    ) external view returns (Submission memory, Dispute memory);

    /// @notice Returns the hash of a sound program: see `IReferee.check`.
    function check(Program calldata program) external view returns (bytes32);
}
