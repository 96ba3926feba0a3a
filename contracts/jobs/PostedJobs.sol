// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Escrow} from "../Escrow.sol";
import {Timed} from "../Timed.sol";
import {Calls} from "../commit/Calls.sol";
import {Modes} from "../commit/Modes.sol";
import {Programs} from "../commit/Programs.sol";
import {IJobs} from "../interfaces/IJobs.sol";
import {INotary} from "../interfaces/INotary.sol";
import {JobPhase, KeptJob, Program, Rules, Terms} from "../interfaces/JobTypes.sol";
import {JobStorage} from "./JobStorage.sol";
import {FixedPointMathLib} from "solady/utils/FixedPointMathLib.sol";
import {SSTORE2} from "solady/utils/SSTORE2.sol";
import {SafeCastLib} from "solady/utils/SafeCastLib.sol";

/// @title PostedJobs
/// @notice The jobs: how they are posted, and their phases.
abstract contract PostedJobs is JobStorage, Escrow, IJobs, Timed {
    // ------------------------------------------------------------------ storage

    INotary public immutable NOTARY;
    /// @dev `NOTARY.STAKE_GAS()`.
    uint256 private immutable _STAKE_GAS;

    uint256 public jobCount;

    // ------------------------------------------------------------------ constructor

    constructor(INotary notary) {
        NOTARY = notary;
        _STAKE_GAS = notary.STAKE_GAS();
    }

    // ------------------------------------------------------------------ guards

    modifier during(uint256 jobId, JobPhase want) {
        _checkPhase(jobId, want);
        _;
    }

    // ------------------------------------------------------------------ moves

    function post(Terms calldata terms) external payable returns (uint256 jobId) {
        (bytes32 programHash, bytes memory file) =
            abi.decode(Calls.ask(address(NOTARY), INotary.check.selector), (bytes32, bytes));

        jobId = ++jobCount;
        KeptJob storage job = _jobs[jobId];
        (job.referee, job.slots) = (terms.referee, terms.slots);
        job.rounded = Modes.rounded(terms.program.mode);
        (job.revealPeriod, job.challengePeriod) = (terms.revealPeriod, terms.challengePeriod);
        // SAFETY: the Notary has checked that the stake and the fees fit.
        job.stake = uint88(terms.stake);
        job.checkpoints =
            SafeCastLib.toUint48(Programs.checkpoints(terms.program.steps, terms.program.strides[0]));
        (job.lowFee, job.highFee) = (uint40(terms.lowFee), uint40(terms.highFee));
        job.watchPeriod = terms.watchPeriod;
        job.file = SSTORE2.write(file);
        (job.verdictPeriod, job.appealPeriod) = (terms.rules.verdictPeriod, terms.rules.appealPeriod);
        (job.clock, job.threshold) = (terms.rules.clock, terms.rules.threshold);
        (job.client, job.reward) = (msg.sender, SafeCastLib.toUint96(msg.value));
        job.posted = uint40(_time());
        _setPhases(jobId, job, job.posted + terms.trainPeriod);
        emit Posted(
            jobId,
            msg.sender,
            terms.referee,
            programHash,
            terms.programFile,
            msg.value,
            terms.stake,
            terms.uri
        );
    }

    // ------------------------------------------------------------------ phases

    /// @dev Sets the end of Training; the later instants follow.
    function _setPhases(uint256 jobId, KeptJob storage job, uint40 commitEnd) internal {
        job.commitEnd = commitEnd;
        _setReveal(jobId, job, commitEnd + job.revealPeriod);
    }

    /// @dev Sets the end of Reveal; the later instant follows.
    function _setReveal(uint256 jobId, KeptJob storage job, uint40 revealEnd) internal {
        job.revealEnd = revealEnd;
        _setChallenge(jobId, job, revealEnd + job.challengePeriod);
    }

    /// @dev Sets the end of Challenge.
    function _setChallenge(uint256 jobId, KeptJob storage job, uint40 challengeEnd) internal {
        job.challengeEnd = challengeEnd;
        emit PhaseEnds(jobId, job.commitEnd, job.revealEnd, challengeEnd);
    }

    // ------------------------------------------------------------------ views

    function programOf(uint256) external view returns (Program memory) {
        Calls.relay(address(NOTARY));
    }

    function wordsAt(bytes32 from, uint256 count) external view returns (bytes32[] memory words) {
        words = new bytes32[](count);
        for (uint256 i = 0; i < count; ++i) {
            assembly ("memory-safe") {
                mstore(add(add(words, 0x20), mul(i, 0x20)), sload(add(from, i)))
            }
        }
    }

    function fileOf(uint256 jobId) external view returns (address) {
        return _jobs[jobId].file;
    }

    function logsOf(uint256 jobId) external view returns (bytes32) {
        return _jobs[jobId].logs;
    }

    function phaseOf(uint256 jobId) public view returns (JobPhase) {
        KeptJob storage job = _jobs[jobId];
        if (job.posted == 0) return JobPhase.None;
        if (job.ended != JobPhase.None) return job.ended;
        uint256 time = _time();
        if (time < job.commitEnd) return JobPhase.Training;
        if (time < job.revealEnd) return JobPhase.Reveal;
        if (time < job.challengeEnd) return JobPhase.Challenge;
        return JobPhase.Closing;
    }

    function rulesOf(uint256 jobId) external view returns (Rules memory rules, uint256 stake) {
        KeptJob storage job = _jobs[jobId];
        rules = Rules(job.threshold, job.verdictPeriod, job.appealPeriod, job.clock);
        return (rules, stakeOf(jobId));
    }

    function feeOf(uint256 jobId) public view returns (uint256) {
        KeptJob storage job = _jobs[jobId];
        return FixedPointMathLib.clamp(2 * block.basefee, job.lowFee, job.highFee);
    }

    function stakeOf(uint256 jobId) public view returns (uint256) {
        return FixedPointMathLib.max(_jobs[jobId].stake, _STAKE_GAS * feeOf(jobId));
    }

    function isVerifier(uint256, address) external view returns (bool) {
        Calls.relay(address(NOTARY));
    }

    /// @dev NOTE: a function, so that the modifier's code exists once.
    function _checkPhase(uint256 jobId, JobPhase want) internal view {
        JobPhase have = phaseOf(jobId);
        if (have != want) revert WrongPhase(jobId, have, want);
    }
}
