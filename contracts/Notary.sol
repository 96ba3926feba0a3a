// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Hash} from "./commit/Hash.sol";
import {Merkle} from "./commit/Merkle.sol";
import {Modes} from "./commit/Modes.sol";
import {IJobs} from "./interfaces/IJobs.sol";
import {INotary} from "./interfaces/INotary.sol";
import {IReferee} from "./interfaces/IReferee.sol";
import {IVerifierRegistry} from "./interfaces/IVerifierRegistry.sol";
import {
    Claim,
    Group,
    Job,
    JobPhase,
    KeptJob,
    MAX_URI,
    PAGE,
    Program,
    Refutation,
    Rules,
    StakedClaim,
    Terms,
    Trainer
} from "./interfaces/JobTypes.sol";
import {StoredJobs} from "./jobs/StoredJobs.sol";
import {TermsFile} from "./jobs/TermsFile.sol";
import {FixedPointMathLib} from "solady/utils/FixedPointMathLib.sol";
import {SSTORE2} from "solady/utils/SSTORE2.sol";

/// @title Notary
/// @notice See INotary.
contract Notary is StoredJobs, INotary {
    // ------------------------------------------------------------------ storage

    /// @notice Bounds the gas of every loop over slots.
    uint256 public constant MAX_SLOTS = 16;
    /// @notice Bounds the search for a voter, and the shares of a prize.
    uint256 public constant MAX_VERIFIERS = 32;
    /// @notice Keeps every instant far from overflow, and bounds how long a stake is locked.
    uint32 public constant MAX_PERIOD = 365 days;

    /// @notice NOTE: over a million ether. A seat holds 88 bits of a stake, more than all ether.
    uint256 public constant MAX_STAKE = 2 ** 80;
    /// @notice Wei for a unit of gas. NOTE: over a thousand gwei; a request stores thousands of wei in 32 bits.
    uint256 public constant MAX_FEE = 2 ** 40 - 1;

    IVerifierRegistry public immutable REGISTRY;
    uint256 public immutable STAKE_GAS;
    uint256 public immutable MIN_FEE;
    uint32 public immutable MIN_PERIOD;

    // ------------------------------------------------------------------ constructor

    constructor(IVerifierRegistry registry, uint256 stakeGas, uint256 minFee, uint32 minPeriod) {
        // SAFETY: with a period of zero an instant could equal the one before it, and its phase would vanish.
        if (minPeriod == 0) revert IJobs.BadPeriod(minPeriod, 1, MAX_PERIOD);
        REGISTRY = registry;
        if (minFee == 0 || minFee > MAX_FEE) revert IJobs.BadFees(minFee, minFee, 1, MAX_FEE);
        if (stakeGas > MAX_STAKE / MAX_FEE) revert IJobs.StakeTooLarge(stakeGas * MAX_FEE, MAX_STAKE);
        STAKE_GAS = stakeGas;
        MIN_FEE = minFee;
        MIN_PERIOD = minPeriod;
    }

    // ------------------------------------------------------------------ posting

    function check(Terms calldata terms) external view returns (bytes32 programHash, bytes memory file) {
        if (bytes(terms.uri).length > MAX_URI) revert IJobs.UriTooLong(bytes(terms.uri).length);
        if (terms.slots == 0 || terms.slots > MAX_SLOTS) revert IJobs.BadSlots(terms.slots);
        // SAFETY: logs are an input of the run, so two trainers, with logs of their own, would both be right.
        if (Modes.rounded(terms.program.mode) && terms.slots != 1) revert IJobs.OneSlotOnly(terms.slots);
        if (terms.lowFee < MIN_FEE || terms.highFee < terms.lowFee || terms.highFee > MAX_FEE) {
            revert IJobs.BadFees(terms.lowFee, terms.highFee, MIN_FEE, MAX_FEE);
        }
        if (terms.stake < MIN_STAKE()) revert IJobs.StakeTooSmall(terms.stake, MIN_STAKE());
        if (terms.stake > MAX_STAKE) revert IJobs.StakeTooLarge(terms.stake, MAX_STAKE);
        _checkPeriod(terms.trainPeriod);
        if (terms.watchPeriod > MAX_PERIOD) revert IJobs.BadPeriod(terms.watchPeriod, 0, MAX_PERIOD);
        _checkPeriod(terms.revealPeriod);
        _checkPeriod(terms.challengePeriod);
        programHash = _checkProgram(terms);
        _checkRules(terms);
        // SAFETY: the terms are encoded again, whatever their form in calldata, so they can always be decoded.
        file = TermsFile.encode(terms);
    }

    function checkClaim(
        uint256 jobId,
        address sender,
        uint64 checkpoints,
        Claim calldata claim,
        bytes32 logs,
        bytes32 salt
    ) external view returns (bytes32) {
        if (bytes(claim.uri).length > MAX_URI) revert IJobs.UriTooLong(bytes(claim.uri).length);
        Merkle.check(
            Hash.RUN_TREE, claim.root, claim.last, checkpoints - 1, Merkle.depth(checkpoints), claim.lastPath
        );
        return Hash.commitment(msg.sender, jobId, sender, claim.root, claim.last, logs, salt);
    }

    function checkRefutation(uint256 jobId, Refutation calldata refutation, bytes32)
        external
        view
        returns (bytes32)
    {
        if (bytes(refutation.uri).length > MAX_URI) {
            revert IJobs.UriTooLong(bytes(refutation.uri).length);
        }
        uint64 checkpoints = _readCheckpoints(jobId);
        (uint64 interval, bytes32 claimed) = (refutation.interval, refutation.claimed);
        if (interval >= checkpoints) revert IJobs.NoSuchInterval(interval, checkpoints);
        if (refutation.computed == claimed) revert IJobs.SameCheckpoint(claimed);
        uint256 levels = Merkle.depth(checkpoints);
        Merkle.check(Hash.RUN_TREE, refutation.root, claimed, interval, levels, refutation.path);
        return Merkle.fold(Hash.RUN_TREE, refutation.computed, interval, refutation.path);
    }

    function _checkPeriod(uint32 period) private view {
        if (period < MIN_PERIOD || period > MAX_PERIOD) {
            revert IJobs.BadPeriod(period, MIN_PERIOD, MAX_PERIOD);
        }
    }

    function _checkRules(Terms calldata terms) private view {
        Rules calldata rules = terms.rules;
        _checkPeriod(rules.clock);
        _checkPeriod(rules.verdictPeriod);
        _checkPeriod(rules.appealPeriod);
        uint256 count = terms.verifiers.length;
        if (count > MAX_VERIFIERS) revert IJobs.BadVerifierCount(count);
        if ((rules.threshold == 0) != (count == 0) || rules.threshold > count) {
            revert IJobs.BadThreshold(rules.threshold, count);
        }
        address panel = address(IReferee(terms.referee).PANEL());
        // SAFETY: half of a bond pays the party that has to play a trial against its signer.
        uint256 least = STAKE_GAS * FixedPointMathLib.clamp(2 * block.basefee, terms.lowFee, terms.highFee);
        for (uint256 i = 0; i < count; ++i) {
            address verifier = terms.verifiers[i];
            for (uint256 k = 0; k < i; ++k) {
                if (verifier == terms.verifiers[k]) revert IJobs.VerifierTwice(verifier);
            }
            if (!REGISTRY.serves(verifier, panel)) revert IJobs.VerifierNotRegistered(verifier, panel);
            uint256 bond = REGISTRY.getVerifier(verifier).bond;
            if (bond < least) revert IJobs.BondTooSmall(verifier, bond, least);
        }
    }

    /// @dev SAFETY: a referee that accepts anything, or returns another hash, harms only its own jobs.
    function _checkProgram(Terms calldata terms) private view returns (bytes32) {
        if (terms.referee.code.length == 0) revert IJobs.BadReferee(terms.referee);
        return IReferee(terms.referee).check(terms.program);
    }

    // ------------------------------------------------------------------ views

    function MIN_STAKE() public view returns (uint256) {
        return STAKE_GAS * MIN_FEE;
    }

    function viewOf(uint256 jobId)
        external
        view
        returns (
            JobPhase phase,
            Job memory job,
            Trainer[] memory trainers,
            StakedClaim[] memory claims,
            Group[] memory groups
        )
    {
        phase = IJobs(msg.sender).phaseOf(jobId);
        KeptJob memory kept = _readKept(jobId);
        job = _readJob(jobId, kept);
        job.terms = _readTerms(kept);
        trainers = _readTrainers(jobId, kept);
        claims = _readClaims(jobId, kept, 0, PAGE);
        groups = _readGroups(jobId, kept, job.terms.program, 0, PAGE);
    }

    function claimsFrom(uint256 jobId, uint256 from) external view returns (StakedClaim[] memory) {
        return _readClaims(jobId, _readKept(jobId), from, PAGE);
    }

    function groupsFrom(uint256 jobId, uint256 from) external view returns (Group[] memory) {
        KeptJob memory kept = _readKept(jobId);
        // NOTE: without a job there is no file to read.
        if (kept.file == address(0)) return new Group[](0);
        return _readGroups(jobId, kept, TermsFile.programOf(SSTORE2.read(kept.file)), from, PAGE);
    }

    function commitmentOf(
        uint256 jobId,
        address sender,
        bytes32 root,
        bytes32 last,
        bytes32 logs,
        bytes32 salt
    ) external view returns (bytes32) {
        return Hash.commitment(msg.sender, jobId, sender, root, last, logs, salt);
    }

    function programOf(uint256 jobId) external view returns (Program memory program) {
        address file = IJobs(msg.sender).fileOf(jobId);
        if (file == address(0)) return program;
        return TermsFile.programOf(SSTORE2.read(file));
    }

    function isVerifier(uint256 jobId, address account) external view returns (bool) {
        address file = IJobs(msg.sender).fileOf(jobId);
        if (file == address(0)) return false;
        address[] memory verifiers = TermsFile.verifiersOf(SSTORE2.read(file));
        for (uint256 i = 0; i < verifiers.length; ++i) {
            if (verifiers[i] == account) return true;
        }
        return false;
    }

    /// @dev Returns empty terms if there is no job.
    function _readTerms(KeptJob memory kept) private view returns (Terms memory terms) {
        if (kept.file == address(0)) return terms;
        bytes memory file = SSTORE2.read(kept.file);
        (terms.program, terms.verifiers) = (TermsFile.programOf(file), TermsFile.verifiersOf(file));
        (terms.programFile, terms.trainPeriod, terms.uri) = TermsFile.restOf(file);
        (terms.referee, terms.slots, terms.stake) = (kept.referee, kept.slots, kept.stake);
        (terms.lowFee, terms.highFee, terms.watchPeriod) = (kept.lowFee, kept.highFee, kept.watchPeriod);
        (terms.revealPeriod, terms.challengePeriod) = (kept.revealPeriod, kept.challengePeriod);
        terms.rules = Rules(kept.threshold, kept.verdictPeriod, kept.appealPeriod, kept.clock);
    }
}
