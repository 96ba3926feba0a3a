// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Escrow} from "../Escrow.sol";
import {Timed} from "../Timed.sol";
import {Encodings} from "../commit/Encodings.sol";
import {Dispute, ICourt} from "../interfaces/ICourt.sol";
import {IJobs} from "../interfaces/IJobs.sol";
import {HearingPhase, IPanel, Submission} from "../interfaces/IPanel.sol";
import {IReferee, Reason} from "../interfaces/IReferee.sol";
import {IVerifierRegistry} from "../interfaces/IVerifierRegistry.sol";
import {Rules} from "../interfaces/JobTypes.sol";
import {KeptHearing} from "./KeptHearings.sol";

/// @title Hearings
/// @notice The hearings: how a move begins, how a trial begins, and how a match ends.
abstract contract Hearings is Escrow, IPanel, Timed {
    // ------------------------------------------------------------------ storage

    uint8 internal constant NOBODY = 0;
    uint8 internal constant BOTH = 3;

    ICourt public immutable COURT;
    IVerifierRegistry public immutable REGISTRY;

    mapping(uint256 hearingId => KeptHearing) internal _hearings;

    // ------------------------------------------------------------------ constructor

    constructor(ICourt court, IVerifierRegistry registry) Timed(court.TIME()) {
        COURT = court;
        REGISTRY = registry;
    }

    // ------------------------------------------------------------------ guards

    /// @dev Begins every move: checks the phase, and that the submission is the hearing's.
    function _begin(uint256 hearingId, Submission calldata submission, HearingPhase want)
        internal
        view
        returns (KeptHearing storage h)
    {
        h = _hearings[hearingId];
        if (h.phase != want) revert WrongHearingPhase(hearingId, h.phase, want);
        bytes32 have = keccak256(abi.encode(submission));
        if (have != h.file) revert AnotherSubmission(have, h.file);
    }

    function _before(uint256 until) internal view {
        if (_time() >= until) revert PeriodOver(until);
    }

    function _after(uint256 until) internal view {
        if (_time() < until) revert PeriodRunning(until);
    }

    function _checkDispute(Submission calldata submission, Dispute calldata dispute) internal pure {
        bytes32 have = Encodings.hash(dispute);
        if (have != submission.dispute) revert AnotherDispute(have, submission.dispute);
    }

    // ------------------------------------------------------------------ moves

    /// @dev Opens a trial between the spokesmen. Both sides have the job's clock, in full for each trial.
    function _try(
        KeptHearing storage h,
        uint256 hearingId,
        uint32 clock,
        Submission calldata submission,
        Dispute calldata dispute
    ) internal {
        uint256 trialId = COURT.open(_next(h, hearingId), submission.players, clock, dispute);
        emit Tried(hearingId, trialId, submission.players);
    }

    /// @dev Returns the id of the next trial for the Court. NOTE: the last byte is the trial's number.
    function _next(KeptHearing storage h, uint256 hearingId) internal returns (uint256) {
        return hearingId | ++h.trials;
    }

    /// @dev Ends the match. SAFETY: the state is final before the call.
    function _decideHearing(
        KeptHearing storage h,
        uint256 hearingId,
        uint8 losers,
        Reason reason,
        address[] memory deciders
    ) internal {
        emit HearingDecided(hearingId, losers);
        IReferee(h.referee).onHearingDecided(h.matchId, losers, reason, deciders);
    }

    // ------------------------------------------------------------------ views

    /// @dev NOTE: a Jobs contract that changes its answer between calls spoils only its own hearings.
    function _rules(Submission calldata submission)
        internal
        view
        returns (Rules memory rules, uint256 stake)
    {
        return IJobs(submission.jobs).rulesOf(submission.jobId);
    }

    /// @dev Returns the sides with another record, as bits. INVARIANT: the records differ, so the result is never zero.
    function _others(Submission calldata submission, bytes32 record) internal pure returns (uint8) {
        return (submission.records[0] != record ? 1 : 0) | (submission.records[1] != record ? 2 : 0);
    }
}
