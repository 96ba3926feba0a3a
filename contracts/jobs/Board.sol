// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Escrow} from "../Escrow.sol";
import {Timed} from "../Timed.sol";
import {Modes} from "../commit/Modes.sol";
import {Adjudication, IJobs, Job, JobPhase, Program, Rules, Terms} from "../interfaces/IJobs.sol";
import {IReferee} from "../interfaces/IReferee.sol";
import {IVerifierRegistry} from "../interfaces/IVerifierRegistry.sol";

/// @title Board
/// @notice The jobs: posting one, and which phase it is in.
abstract contract Board is Escrow, IJobs, Timed {
    // ------------------------------------------------------------------ storage

    /// @notice Bounds the gas of every loop over slots.
    uint256 public constant MAX_SLOTS = 16;
    /// @notice Bounds the search for a voter, and the shares of a prize.
    uint256 public constant MAX_VERIFIERS = 32;
    /// @notice Long enough for any host name and path, short enough to list.
    uint256 public constant MAX_URI = 512;
    /// @notice Keeps every instant far from overflow, and every stake's lock bounded.
    uint32 public constant MAX_PERIOD = 365 days;

    IVerifierRegistry public immutable REGISTRY;
    /// @notice Covers the worst-case gas of a match, by the deployer's estimate for the chain.
    uint256 public immutable MIN_STAKE;
    /// @notice The shortest period or clock: transactions must get through in it on the chain.
    uint32 public immutable MIN_PERIOD;

    uint256 public jobCount;
    mapping(uint256 jobId => Job) internal _jobs;

    // ------------------------------------------------------------------ constructor

    constructor(IVerifierRegistry registry, uint256 minStake, uint32 minPeriod) {
        // SAFETY: with a period of zero an instant could equal the one before it and its phase vanish.
        if (minPeriod == 0) revert BadPeriod(minPeriod, 1, MAX_PERIOD);
        REGISTRY = registry;
        MIN_STAKE = minStake;
        MIN_PERIOD = minPeriod;
    }

    // ------------------------------------------------------------------ guards

    modifier during(uint256 jobId, JobPhase want) {
        _checkPhase(jobId, want);
        _;
    }

    // ------------------------------------------------------------------ moves

    function post(Terms calldata terms) external payable returns (uint256 jobId) {
        if (bytes(terms.uri).length > MAX_URI) revert UriTooLong(bytes(terms.uri).length);
        if (terms.slots == 0 || terms.slots > MAX_SLOTS) revert BadSlots(terms.slots);
        // SAFETY: logs are an input of the run, so two trainers who cannot know each other's would both be right.
        if (Modes.rounded(terms.program.mode) && terms.slots != 1) revert OneSlotOnly(terms.slots);
        if (terms.stake < MIN_STAKE) revert StakeTooSmall(terms.stake, MIN_STAKE);
        _checkPeriod(terms.trainPeriod);
        _checkPeriod(terms.revealPeriod);
        _checkPeriod(terms.challengePeriod);
        bytes32 programHash = _checkProgram(terms);
        _checkRules(terms);

        jobId = ++jobCount;
        Job storage job = _jobs[jobId];
        job.terms = terms;
        job.client = msg.sender;
        job.reward = msg.value;
        job.posted = uint64(_time());
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

    /// @dev Training ends at `commitEnd`; the later instants follow.
    function _setPhases(uint256 jobId, Job storage job, uint64 commitEnd) internal {
        job.commitEnd = commitEnd;
        _setReveal(jobId, job, commitEnd + job.terms.revealPeriod);
    }

    /// @dev Reveal ends at `revealEnd`; the later instant follows.
    function _setReveal(uint256 jobId, Job storage job, uint64 revealEnd) internal {
        job.revealEnd = revealEnd;
        _setChallenge(jobId, job, revealEnd + job.terms.challengePeriod);
    }

    /// @dev Challenge ends at `challengeEnd`.
    function _setChallenge(uint256 jobId, Job storage job, uint64 challengeEnd) internal {
        job.challengeEnd = challengeEnd;
        emit PhaseEnds(jobId, job.commitEnd, job.revealEnd, challengeEnd);
    }

    // ------------------------------------------------------------------ views

    function programOf(uint256 jobId) external view returns (Program memory) {
        return _jobs[jobId].terms.program;
    }

    function logsOf(uint256 jobId) external view returns (bytes32) {
        return _jobs[jobId].logs;
    }

    function phaseOf(uint256 jobId) public view returns (JobPhase) {
        Job storage job = _jobs[jobId];
        if (job.posted == 0) return JobPhase.None;
        if (job.ended != JobPhase.None) return job.ended;
        uint256 time = _time();
        if (time < job.commitEnd) return JobPhase.Training;
        if (time < job.revealEnd) return JobPhase.Reveal;
        if (time < job.challengeEnd) return JobPhase.Challenge;
        return JobPhase.Closing;
    }

    function rulesOf(uint256 jobId) external view returns (Rules memory rules, uint256 stake) {
        return (_jobs[jobId].terms.rules, _jobs[jobId].terms.stake);
    }

    function isVerifier(uint256 jobId, address account) external view returns (bool) {
        address[] storage verifiers = _jobs[jobId].terms.verifiers;
        for (uint256 i = 0; i < verifiers.length; ++i) {
            if (verifiers[i] == account) return true;
        }
        return false;
    }

    /// @dev NOTE: a function, so that its code is there once.
    function _checkPhase(uint256 jobId, JobPhase want) private view {
        JobPhase have = phaseOf(jobId);
        if (have != want) revert WrongPhase(jobId, have, want);
    }

    function _checkPeriod(uint32 period) private view {
        if (period < MIN_PERIOD || period > MAX_PERIOD) revert BadPeriod(period, MIN_PERIOD, MAX_PERIOD);
    }

    function _checkRules(Terms calldata terms) private view {
        Rules calldata rules = terms.rules;
        _checkPeriod(rules.clock);
        _checkPeriod(rules.verdictPeriod);
        _checkPeriod(rules.appealPeriod);
        uint256 count = terms.verifiers.length;
        bool none = rules.adjudication == Adjudication.OnChain;
        if (count > MAX_VERIFIERS || (count == 0) != none) revert BadVerifierCount(count);
        if ((rules.threshold == 0) != none || rules.threshold > count) {
            revert BadThreshold(rules.threshold, count);
        }
        address panel = address(IReferee(terms.referee).PANEL());
        for (uint256 i = 0; i < count; ++i) {
            address verifier = terms.verifiers[i];
            for (uint256 k = 0; k < i; ++k) {
                if (verifier == terms.verifiers[k]) revert VerifierTwice(verifier);
            }
            if (!REGISTRY.serves(verifier, panel)) revert VerifierNotRegistered(verifier, panel);
        }
    }

    /// @dev SAFETY: a referee that accepts anything, or says another hash, hurts its own job and nothing else.
    function _checkProgram(Terms calldata terms) private view returns (bytes32) {
        if (terms.referee.code.length == 0) revert BadReferee(terms.referee);
        return IReferee(terms.referee).check(terms.program);
    }
}
