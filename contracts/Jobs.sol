// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Timed} from "./Timed.sol";
import {Hash} from "./commit/Hash.sol";
import {Merkle} from "./commit/Merkle.sol";
import {IDemands} from "./interfaces/IDemands.sol";
import {Claim, Group, JobPhase, KeptJob, MAX_URI, StakedClaim, Trainer} from "./interfaces/IJobs.sol";
import {INotary} from "./interfaces/INotary.sol";
import {Board} from "./jobs/Board.sol";
import {Withheld} from "./jobs/Withheld.sol";

/// @title Jobs
/// @notice See IJobs. Posting and phases are in `jobs/Board`, groups and matches in `jobs/Pairing`, what is demanded in
/// `jobs/Withheld`, payments in `Escrow`; here is what trainers and challengers do, and the end. What can be posted the
/// Notary says.
contract Jobs is Withheld {
    // ------------------------------------------------------------------ storage

    struct Challenge {
        bytes32 commitment;
        uint64 committedAt;
    }

    uint32 public immutable COMMIT_AGE;

    /// @dev Number of a sender's slot plus one, so that zero says none.
    mapping(uint256 jobId => mapping(address trainer => uint256)) private _slotOf;
    mapping(uint256 jobId => mapping(address challenger => Challenge)) private _challenges;

    // ------------------------------------------------------------------ constructor

    constructor(INotary notary, IDemands demands, uint32 commitAge)
        Timed(demands.TIME())
        Board(notary)
        Withheld(demands)
    {
        // SAFETY: of age zero a commitment could be made and shown in one block; of the age of a period none would ever be in time.
        uint32 most = notary.MIN_PERIOD() - 1;
        if (commitAge == 0 || commitAge > most) revert BadCommitAge(commitAge, 1, most);
        COMMIT_AGE = commitAge;
    }

    // ------------------------------------------------------------------ moves

    function join(uint256 jobId) external payable during(jobId, JobPhase.Training) {
        KeptJob storage job = _jobs[jobId];
        Trainer[] storage trainers = _trainers[jobId];
        _checkStake(job);
        if (trainers.length >= job.terms.slots) revert NoFreeSlot(jobId);
        if (_slotOf[jobId][msg.sender] != 0) revert AlreadyJoined(jobId, msg.sender);

        trainers.push().owner = msg.sender;
        _slotOf[jobId][msg.sender] = trainers.length;
        emit Joined(jobId, msg.sender);
    }

    function commit(uint256 jobId, bytes32 commitment) external during(jobId, JobPhase.Training) {
        KeptJob storage job = _jobs[jobId];
        Trainer storage trainer = _trainer(jobId);
        if (trainer.commitment != 0) revert AlreadyCommitted(jobId, msg.sender);
        if (commitment == 0) revert EmptyCommitment();

        trainer.commitment = commitment;
        ++job.commitments;
        emit Committed(jobId, msg.sender, commitment);
        if (job.commitments == job.terms.slots) _setPhases(jobId, job, uint64(_time()));
    }

    function reveal(uint256 jobId, Claim calldata claim, bytes32 logs, bytes32 salt)
        external
        nonReentrant
        during(jobId, JobPhase.Reveal)
    {
        KeptJob storage job = _jobs[jobId];
        Trainer storage trainer = _trainer(jobId);
        if (trainer.commitment == 0) revert NothingCommitted(jobId, msg.sender);
        if (trainer.revealed) revert AlreadyClaimed(jobId, msg.sender);
        bytes32 have = Hash.commitment(jobId, msg.sender, claim.root, claim.last, logs, salt);
        if (have != trainer.commitment) revert WrongCommitment(have, trainer.commitment);
        _checkClaim(job, claim);
        if (logs != 0) {
            if (!job.terms.rounded) revert UnexpectedLogs(logs);
            job.logs = logs;
            emit LogsRevealed(jobId, logs);
        }

        trainer.revealed = true;
        ++job.reveals;
        if (job.reveals == job.commitments) _setReveal(jobId, job, uint64(_time()));
        _claim(jobId, job, claim.root, claim.last, claim.uri, true);
    }

    function commitChallenge(uint256 jobId, bytes32 commitment) external during(jobId, JobPhase.Challenge) {
        if (commitment == 0) revert EmptyCommitment();
        // NOTE: what counts is that blocks go by, and they do in a pause.
        _challenges[jobId][msg.sender] = Challenge(commitment, uint64(block.timestamp));
        emit ChallengeCommitted(jobId, msg.sender, commitment);
    }

    function challenge(uint256 jobId, Claim calldata claim, bytes32 salt)
        external
        payable
        nonReentrant
        during(jobId, JobPhase.Challenge)
    {
        KeptJob storage job = _jobs[jobId];
        _checkStake(job);
        if (_claimOf[jobId][msg.sender] != 0) revert AlreadyClaimed(jobId, msg.sender);
        // SAFETY: without the trainer's logs no run is the right one, so nobody could defend a claim.
        if (job.reveals == 0 && job.terms.rounded) revert LogsNotRevealed(jobId);
        if (_claims[jobId].length >= MAX_CLAIMS) revert TooManyClaims(jobId);
        // SAFETY: a second claim of a living root would risk nothing, and 64 of them would shut out whoever is right.
        if (_isClaimed(jobId, claim.root)) revert RootClaimed(claim.root);
        _checkCommitted(jobId, claim, salt);
        _checkClaim(job, claim);

        _claim(jobId, job, claim.root, claim.last, claim.uri, false);
    }

    function finalize(uint256 jobId) external nonReentrant during(jobId, JobPhase.Closing) {
        KeptJob storage job = _jobs[jobId];
        if (job.openMatches != 0) revert MatchesOpen(jobId, job.openMatches);
        _checkDemands(jobId, job);

        // SAFETY: a root is accepted only if anybody could have disputed it to the end; here somebody found no place, or nobody
        // could know which root is right.
        if (_claims[jobId].length == MAX_CLAIMS || job.finder != address(0)) return _void(jobId, job);
        _burnUnrevealed(jobId, job);
        if (job.waiting == 0) {
            job.ended = JobPhase.Unclaimed;
            emit Unclaimed(jobId);
            _credit(job.client, job.reward);
            return;
        }
        // INVARIANT: with no match open, every group but the waiting one is dead.
        Group storage group = _groups[jobId][job.waiting - 1];
        job.ended = JobPhase.Accepted;
        job.acceptedRoot = group.root;
        job.acceptedLast = group.last;
        emit Accepted(jobId, group.root, group.last);
        _payGroup(jobId, job, group);
    }

    // ------------------------------------------------------------------ money

    /// @dev Stakes back to the members that have not lost; the reward to those of them that hold a slot.
    function _payGroup(uint256 jobId, KeptJob storage job, Group storage group) private {
        StakedClaim[] storage claims = _claims[jobId];
        uint256 slots;
        for (uint256 i = group.spokesman; i < group.members.length; ++i) {
            if (claims[group.members[i]].slot) ++slots;
        }
        uint256 shareDown = slots == 0 ? 0 : job.reward / slots;
        uint256 remainder = job.reward - shareDown * slots;
        for (uint256 i = group.spokesman; i < group.members.length; ++i) {
            StakedClaim storage member = claims[group.members[i]];
            uint256 amount = job.terms.stake;
            if (member.slot || slots == 0) {
                // NOTE: the remainder goes to the first slot holder; without any it is the whole reward, and goes to
                // the spokesman.
                amount += shareDown + remainder;
                remainder = 0;
            }
            _credit(member.owner, amount);
        }
    }

    /// @dev Who took a slot and showed no claim kept another from it.
    function _burnUnrevealed(uint256 jobId, KeptJob storage job) private {
        uint256 unrevealed = _trainers[jobId].length - job.reveals;
        _credit(BURNED, unrevealed * job.terms.stake);
    }

    // ------------------------------------------------------------------ views

    function challengeOf(uint256 jobId, address account)
        external
        view
        returns (bytes32 commitment, uint64 committedAt)
    {
        Challenge storage committed = _challenges[jobId][account];
        return (committed.commitment, committed.committedAt);
    }

    function commitmentOf(
        uint256 jobId,
        address sender,
        bytes32 root,
        bytes32 last,
        bytes32 logs,
        bytes32 salt
    ) external view returns (bytes32) {
        return Hash.commitment(jobId, sender, root, last, logs, salt);
    }

    function _trainer(uint256 jobId) private view returns (Trainer storage) {
        uint256 slot = _slotOf[jobId][msg.sender];
        if (slot == 0) revert NotTrainer(jobId, msg.sender);
        return _trainers[jobId][slot - 1];
    }

    function _checkStake(KeptJob storage job) private view {
        if (msg.value != job.terms.stake) revert WrongStake(msg.value, job.terms.stake);
    }

    /// @dev SAFETY: who has seen a claim on its way into a block can commit to it in that block at the earliest, so the claim
    /// has `COMMIT_AGE` seconds of blocks to get in before a copy of it is old enough.
    function _checkCommitted(uint256 jobId, Claim calldata claim, bytes32 salt) private view {
        Challenge storage committed = _challenges[jobId][msg.sender];
        if (committed.commitment == 0) revert NothingCommitted(jobId, msg.sender);
        uint256 from = uint256(committed.committedAt) + COMMIT_AGE;
        if (block.timestamp < from) revert TooSoon(from);
        bytes32 have = Hash.commitment(jobId, msg.sender, claim.root, claim.last, 0, salt);
        if (have != committed.commitment) revert WrongCommitment(have, committed.commitment);
    }

    /// @dev `last` must be the last checkpoint of the run.
    function _checkClaim(KeptJob storage job, Claim calldata claim) private view {
        if (bytes(claim.uri).length > MAX_URI) revert UriTooLong(bytes(claim.uri).length);
        uint64 count = job.terms.checkpoints;
        Merkle.check(Hash.RUN_TREE, claim.root, claim.last, count - 1, Merkle.depth(count), claim.lastPath);
    }
}
