// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Timed} from "./Timed.sol";
import {Calls} from "./commit/Calls.sol";
import {IDataAvailability} from "./interfaces/IDataAvailability.sol";
import {INotary} from "./interfaces/INotary.sol";
import {Claim, Group, JobPhase, KeptClaim, KeptJob, Trainer} from "./interfaces/JobTypes.sol";
import {Board} from "./jobs/Board.sol";
import {DataAvailabilityHook} from "./jobs/DataAvailabilityHook.sol";
import {Refuting} from "./jobs/Refuting.sol";

/// @title Jobs
/// @notice See IJobs. Posting and phases are in `jobs/Board`, groups and matches in `jobs/Pairing`, refutations in
/// `jobs/Refuting`, data requests in `jobs/DataAvailabilityHook`, payments in `Escrow`; here are the moves of trainers and challengers, and a job's end.
/// The Notary checks what is posted and claimed.
contract Jobs is DataAvailabilityHook {
    // ------------------------------------------------------------------ storage

    /// @notice Each new root of a challenger costs this fraction of the stake more than the one before.
    uint256 private constant FLAT = 16;

    /// @dev Number of a sender's slot plus one; zero means none.
    mapping(uint256 jobId => mapping(address trainer => uint256)) private _slotOf;

    // ------------------------------------------------------------------ constructor

    constructor(INotary notary, IDataAvailability dataAvailability, uint32 commitAge)
        Timed(dataAvailability.TIME())
        Board(notary)
        Refuting(commitAge)
        DataAvailabilityHook(dataAvailability)
    {}

    // ------------------------------------------------------------------ moves

    function join(uint256 jobId) external payable during(jobId, JobPhase.Training) {
        KeptJob storage job = _jobs[jobId];
        Trainer[] storage trainers = _trainers[jobId];
        uint256 stake = stakeOf(jobId);
        if (msg.value < stake) revert WrongStake(msg.value, stake);
        if (trainers.length >= job.terms.slots) revert NoFreeSlot(jobId);
        if (_slotOf[jobId][msg.sender] != 0) revert AlreadyJoined(jobId, msg.sender);

        Trainer storage trainer = trainers.push();
        trainer.owner = msg.sender;
        // INVARIANT: `stakeOf` is at most 2^80 (Notary).
        trainer.stake = uint88(stake);
        job.unrevealed += uint96(stake);
        _slotOf[jobId][msg.sender] = trainers.length;
        emit Joined(jobId, msg.sender);
        _credit(msg.sender, msg.value - stake);
    }

    function commit(uint256 jobId, bytes32 commitment) external during(jobId, JobPhase.Training) {
        KeptJob storage job = _jobs[jobId];
        Trainer storage trainer = _trainer(jobId);
        if (trainer.commitment != 0) revert AlreadyCommitted(jobId, msg.sender);
        if (commitment == 0) revert EmptyCommitment();

        trainer.commitment = commitment;
        ++job.commitments;
        emit Committed(jobId, msg.sender, commitment);
        if (job.commitments == job.terms.slots) {
            _setPhases(jobId, job, uint64(_time()) + job.terms.watchPeriod);
        }
    }

    function reveal(uint256 jobId, Claim calldata claim, bytes32 logs, bytes32 salt)
        external
        payable
        nonReentrant
        during(jobId, JobPhase.Reveal)
    {
        KeptJob storage job = _jobs[jobId];
        Trainer storage trainer = _trainer(jobId);
        if (trainer.commitment == 0) revert NothingCommitted(jobId, msg.sender);
        if (trainer.revealed) revert AlreadyClaimed(jobId, msg.sender);
        bytes32 have = _checkClaim(jobId, job, claim, logs, salt);
        if (have != trainer.commitment) revert WrongCommitment(have, trainer.commitment);
        if (logs != 0) {
            if (!job.terms.rounded) revert UnexpectedLogs(logs);
            job.logs = logs;
            emit LogsRevealed(jobId, logs);
        }

        trainer.revealed = true;
        ++job.reveals;
        if (job.reveals == job.commitments) _setReveal(jobId, job, uint64(_time()));
        uint256 stake = _toppedUp(jobId, job, trainer);
        _claim(jobId, job, claim, stake, true);
    }

    function challenge(uint256 jobId, Claim calldata claim, bytes32 salt) external payable nonReentrant {
        KeptJob storage job = _jobs[jobId];
        bool closed = phaseOf(jobId) == JobPhase.Closing;
        if (!closed) _checkPhase(jobId, JobPhase.Challenge);
        if (_hasClaimed[jobId][msg.sender]) revert AlreadyClaimed(jobId, msg.sender);
        // SAFETY: nobody trains along with a trainer that reveals nothing, so nobody would notice a wrong claim in the last
        // second. With rounding logs nobody could: without the trainer's logs no run is right.
        if (job.reveals == 0) revert NothingRevealed(jobId);
        _checkRipe(jobId, _checkClaim(jobId, job, claim, 0, salt));
        bool founds = _groupOf[jobId][claim.root] == 0;
        // SAFETY: if new roots were admitted later, each would delay the end by a match.
        if (closed && (founds || !_isReclaimable(jobId, claim.root))) revert RootClosed(claim.root);
        uint256 stake = priceOf(jobId, claim.root);
        // SAFETY: at least, not exactly, because a claim just before this one makes this one dearer.
        if (msg.value < stake) revert WrongStake(msg.value, stake);
        if (founds) ++job.founded;
        else ++job.followers;
        _claim(jobId, job, claim, stake, false);
        _credit(msg.sender, msg.value - stake);
    }

    function finalize(uint256 jobId) external nonReentrant during(jobId, JobPhase.Closing) {
        KeptJob storage job = _jobs[jobId];
        if (job.openMatches != 0) revert MatchesOpen(jobId, job.openMatches);
        if (_time() < job.reclaimEnd) revert ReclaimsOpen(job.reclaimEnd);
        _checkRequests(jobId, job);

        // NOTE: a trainer that took a slot and revealed no claim kept another trainer from the slot.
        _credit(BURNED, job.unrevealed);
        if (job.waiting == 0) {
            _credit(job.client, job.reward);
            // SAFETY: a root is accepted only if anybody could have disputed it to the end; without the logs nobody
            // knows which is right.
            if (job.finder != address(0)) {
                job.ended = JobPhase.Void;
                emit Voided(jobId);
            } else {
                job.ended = JobPhase.Unclaimed;
                emit Unclaimed(jobId);
            }
            return;
        }
        // INVARIANT: with no match open, every group except the waiting one is dead, refutations aside.
        Group storage group = _groups[jobId][job.waiting - 1];
        job.ended = JobPhase.Accepted;
        emit Accepted(jobId, group.root, group.last);
    }

    function collect(uint256 jobId, uint32 number) external nonReentrant {
        KeptJob storage job = _jobs[jobId];
        if (job.ended == JobPhase.None) revert JobRuns(jobId);
        if (number >= _claims[jobId].length) revert NoSuchClaim(jobId, number);
        KeptClaim storage claim = _claims[jobId][number];
        Group storage group = _groups[jobId][claim.group];
        if (claim.place < group.spokesman) revert LostClaim(jobId, number);
        if (claim.collected) revert AlreadyCollected(jobId, number);

        claim.collected = true;
        // NOTE: a refutation that has not lost is not a claim of the accepted root.
        bool accepted = job.ended == JobPhase.Accepted && group.refutes == 0;
        uint256 amount = claim.stake + (accepted ? _share(job, group, claim) : 0);
        emit Collected(jobId, claim.owner, number, amount);
        _credit(claim.owner, amount);
    }

    // ------------------------------------------------------------------ money

    /// @dev Returns the stake of a slot's claim: the slot's stake, or the price now if it is higher. SAFETY: a party
    /// that shows the claim wrong is paid from this stake, at the price of gas once there is a claim to show wrong.
    function _toppedUp(uint256 jobId, KeptJob storage job, Trainer storage trainer)
        private
        returns (uint256 stake)
    {
        uint256 taken = trainer.stake;
        stake = stakeOf(jobId);
        if (stake < taken) stake = taken;
        if (taken + msg.value < stake) revert WrongStake(taken + msg.value, stake);
        job.unrevealed -= uint96(taken);
        _credit(msg.sender, taken + msg.value - stake);
    }

    /// @dev Returns a claim's share of the reward, which goes to the members that hold slots and have not lost.
    /// INVARIANT: all claims of an accepted job that are not lost, refutations aside, are in one group, whose spokesman stays.
    function _share(KeptJob storage job, Group storage group, KeptClaim storage claim)
        private
        view
        returns (uint256)
    {
        bool speaks = claim.place == group.spokesman;
        if (group.slots <= group.spokesman) return speaks ? job.reward : 0;
        if (!claim.slot) return 0;
        uint256 slots = group.slots - group.spokesman;
        // NOTE: the first of them gets the remainder.
        return job.reward / slots + (speaks ? job.reward % slots : 0);
    }

    // ------------------------------------------------------------------ views

    function acceptedRoot(uint256 jobId) external view returns (bytes32) {
        KeptJob storage job = _jobs[jobId];
        if (job.ended != JobPhase.Accepted) return 0;
        return _groups[jobId][job.waiting - 1].root;
    }

    function commitmentOf(uint256, address, bytes32, bytes32, bytes32, bytes32)
        external
        view
        returns (bytes32)
    {
        Calls.relay(address(NOTARY));
    }

    function _trainer(uint256 jobId) private view returns (Trainer storage) {
        uint256 slot = _slotOf[jobId][msg.sender];
        if (slot == 0) revert NotTrainer(jobId, msg.sender);
        return _trainers[jobId][slot - 1];
    }

    function priceOf(uint256 jobId, bytes32 root) public view returns (uint256) {
        KeptJob storage job = _jobs[jobId];
        uint256 stake = stakeOf(jobId);
        if (_groupOf[jobId][root] != 0) return stake << (job.followers + 1);
        return stake * (FLAT + job.founded) / FLAT;
    }

    /// @dev Returns whether a claim of this root was lost, and another one stands or the root can be claimed again.
    function _isReclaimable(uint256 jobId, bytes32 root) private view returns (bool) {
        Group storage group = _groups[jobId][_groupOf[jobId][root] - 1];
        // NOTE: where logs are withheld nothing is accepted, so there is nothing to defend.
        if (group.spokesman == 0 || _jobs[jobId].finder != address(0)) return false;
        return group.spokesman < group.members.length || _time() < group.until;
    }

    /// @dev Checks a claim. Returns the commitment that the sender must have made to it.
    function _checkClaim(uint256 jobId, KeptJob storage job, Claim calldata claim, bytes32 logs, bytes32 salt)
        private
        view
        returns (bytes32)
    {
        return NOTARY.checkClaim(jobId, msg.sender, job.terms.checkpoints, claim, logs, salt);
    }
}
