// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Timed} from "./Timed.sol";
import {Calls} from "./commit/Calls.sol";
import {IDataAvailability} from "./interfaces/IDataAvailability.sol";
import {INotary} from "./interfaces/INotary.sol";
import {Claim, JobPhase, KeptGroup, KeptJob, Seat} from "./interfaces/JobTypes.sol";
import {DataAvailabilityHook} from "./jobs/DataAvailabilityHook.sol";
import {PostedJobs} from "./jobs/PostedJobs.sol";
import {Refuting} from "./jobs/Refuting.sol";

/// @title Jobs
/// @notice See IJobs. Posting and phases are in `jobs/PostedJobs`, groups and matches in `jobs/Pairing`, refutations in
/// `jobs/Refuting`, data requests in `jobs/DataAvailabilityHook`, payments in `Escrow`; here are the moves of trainers and challengers, and a job's end.
/// The Notary checks what is posted and claimed.
contract Jobs is DataAvailabilityHook {
    // ------------------------------------------------------------------ storage

    /// @notice Each new root of a challenger costs this fraction of the stake more than the one before.
    uint256 private constant FLAT = 16;
    /// @dev The part of its stake that it costs a slot holder to resign.
    uint256 private constant RESIGNING = 32;

    // ------------------------------------------------------------------ constructor

    constructor(INotary notary, IDataAvailability dataAvailability, uint32 commitAge)
        Timed(dataAvailability.TIME())
        PostedJobs(notary)
        Refuting(commitAge)
        DataAvailabilityHook(dataAvailability)
    {}

    // ------------------------------------------------------------------ moves

    function join(uint256 jobId) external payable during(jobId, JobPhase.Training) {
        KeptJob storage job = _jobs[jobId];
        uint256 stake = stakeOf(jobId);
        _take(msg.value, stake);
        if (job.joined >= job.slots) revert NoFreeSlot(jobId);
        if (_slotOf(jobId, job, msg.sender) != 0) revert AlreadyJoined(jobId, msg.sender);

        Seat storage seat = _seats[jobId][job.joined++];
        // INVARIANT: `stakeOf` is at most 2^80 (Notary).
        (seat.owner, seat.stake) = (msg.sender, uint88(stake));
        emit Joined(jobId, msg.sender);
    }

    function resign(uint256 jobId) external during(jobId, JobPhase.Training) {
        KeptJob storage job = _jobs[jobId];
        uint256 slot = _slot(jobId, job);
        Seat storage seat = _seats[jobId][slot];
        if (seat.mark != 0) revert AlreadyCommitted(jobId, msg.sender);

        uint256 stake = seat.stake;
        // INVARIANT: the slots that are taken stay the first ones. Nothing names a slot by its number before Reveal.
        uint256 last = --job.joined;
        Seat storage moved = _seats[jobId][last];
        if (slot != last) (seat.owner, seat.stake, seat.mark) = (moved.owner, moved.stake, moved.mark);
        (moved.owner, moved.stake, moved.mark) = (address(0), 0, 0);
        emit Resigned(jobId, msg.sender);
        // SAFETY: it costs something, or whoever takes all slots keeps a job from being trained for nothing.
        uint256 fee = stake / RESIGNING;
        _credit(BURNED, fee);
        _credit(msg.sender, stake - fee);
    }

    function commit(uint256 jobId, bytes32 commitment) external during(jobId, JobPhase.Training) {
        KeptJob storage job = _jobs[jobId];
        Seat storage seat = _seats[jobId][_slot(jobId, job)];
        if (seat.mark != 0) revert AlreadyCommitted(jobId, msg.sender);
        if (commitment == 0) revert EmptyCommitment();

        seat.mark = commitment;
        ++job.commitments;
        emit Committed(jobId, msg.sender, commitment);
        if (job.commitments == job.slots) {
            _setPhases(jobId, job, uint40(_time()) + job.watchPeriod);
        }
    }

    function reveal(uint256 jobId, Claim calldata claim, bytes32 logs, bytes32 salt)
        external
        payable
        nonReentrant
        during(jobId, JobPhase.Reveal)
    {
        KeptJob storage job = _jobs[jobId];
        uint256 slot = _slot(jobId, job);
        Seat storage seat = _seats[jobId][slot];
        if (seat.mark == 0) revert NothingCommitted(jobId, msg.sender);
        if (seat.flags & CLAIMS != 0) revert AlreadyClaimed(jobId, msg.sender);
        bytes32 have = _checkClaim(jobId, job, claim, logs, salt);
        if (have != seat.mark) revert WrongCommitment(have, seat.mark);
        if (logs != 0) {
            if (!job.rounded) revert UnexpectedLogs(logs);
            job.logs = logs;
            emit LogsRevealed(jobId, logs);
        }

        uint32 number = job.reveals++;
        // SAFETY: at most 16 slots, so a seat fits in four bits.
        job.order |= uint64(slot << (4 * number));
        if (job.reveals == job.commitments) _setReveal(jobId, job, uint40(_time()));
        uint256 stake = _toppedUp(jobId, seat);
        _claim(jobId, job, claim, number, seat, stake, true);
    }

    function challenge(uint256 jobId, Claim calldata claim, bytes32 salt) external payable nonReentrant {
        KeptJob storage job = _jobs[jobId];
        bool closed = phaseOf(jobId) == JobPhase.Closing;
        if (!closed) _checkPhase(jobId, JobPhase.Challenge);
        if (_hasClaimedBefore(jobId, job)) revert AlreadyClaimed(jobId, msg.sender);
        // SAFETY: nobody trains along with a trainer that reveals nothing, so nobody would notice a wrong claim in the last
        // second. With rounding logs nobody could: without the trainer's logs no run is right.
        if (job.reveals == 0) revert NothingRevealed(jobId);
        _checkRipe(jobId, _checkClaim(jobId, job, claim, 0, salt));
        uint256 found = _groupOf(jobId, job, claim.root);
        // SAFETY: if new roots were admitted later, each would delay the end by a match.
        if (closed && (found == 0 || !_isReclaimable(job, _groups[jobId][found - 1]))) {
            revert RootClosed(claim.root);
        }
        uint256 stake = _priceOf(jobId, job, found);
        _take(msg.value, stake);
        _hasClaimed[jobId][msg.sender] = true;
        uint32 number = _claimCount(job);
        _claim(jobId, job, claim, number, _seatOf(jobId, job, number), stake, false);
    }

    function finalize(uint256 jobId) external nonReentrant during(jobId, JobPhase.Closing) {
        KeptJob storage job = _jobs[jobId];
        if (job.openMatches != 0) revert MatchesOpen(jobId, job.openMatches);
        if (_time() < job.reclaimEnd) revert ReclaimsOpen(job.reclaimEnd);
        _checkRequests(jobId, job);

        // NOTE: a trainer that took a slot and revealed no claim kept another trainer from the slot.
        _credit(BURNED, _unrevealed(jobId, job));
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
        job.ended = JobPhase.Accepted;
        emit Accepted(jobId, _waitingRoot(jobId, job));
    }

    function collect(uint256 jobId, uint32 number) external nonReentrant {
        KeptJob storage job = _jobs[jobId];
        if (job.ended == JobPhase.None) revert JobRuns(jobId);
        if (number >= _claimCount(job)) revert NoSuchClaim(jobId, number);
        Seat storage seat = _seatOf(jobId, job, number);
        uint32 groupNumber = _groupOf(jobId, job, seat);
        KeptGroup storage group = _groups[jobId][groupNumber];
        uint256 place = 0;
        while (_memberAt(jobId, groupNumber, place) != number) ++place;
        if (place < group.spokesman) revert LostClaim(jobId, number);
        if (seat.flags & COLLECTED != 0) revert AlreadyCollected(jobId, number);

        seat.flags |= COLLECTED;
        // NOTE: a refutation that has not lost is not a claim of the accepted root.
        bool accepted = job.ended == JobPhase.Accepted && group.refutes == 0;
        uint256 share = accepted ? _share(job, group, place, number < job.reveals) : 0;
        uint256 amount = seat.stake + share;
        emit Collected(jobId, seat.owner, number, amount);
        _credit(seat.owner, amount);
    }

    // ------------------------------------------------------------------ money

    /// @dev Returns the stake of a slot's claim: the slot's stake, or the price now if it is higher. SAFETY: a party
    /// that shows the claim wrong is paid from this stake, at the price of gas once there is a claim to show wrong.
    function _toppedUp(uint256 jobId, Seat storage seat) private returns (uint256 stake) {
        uint256 taken = seat.stake;
        stake = stakeOf(jobId);
        if (stake < taken) stake = taken;
        _take(taken + msg.value, stake);
    }

    /// @dev Returns the stakes of the slots without a revealed claim.
    function _unrevealed(uint256 jobId, KeptJob storage job) private view returns (uint256 sum) {
        for (uint256 slot = 0; slot < job.joined; ++slot) {
            Seat storage seat = _seats[jobId][slot];
            if (seat.flags & CLAIMS == 0) sum += seat.stake;
        }
    }

    /// @dev Returns a claim's share of the reward, which goes to the members that hold slots and have not lost.
    /// INVARIANT: all claims of an accepted job that are not lost, refutations aside, are in one group, whose spokesman stays.
    function _share(KeptJob storage job, KeptGroup storage group, uint256 place, bool slot)
        private
        view
        returns (uint256)
    {
        bool speaks = place == group.spokesman;
        uint256 reward = job.reward;
        if (group.slots <= group.spokesman) return speaks ? reward : 0;
        if (!slot) return 0;
        uint256 slots = group.slots - group.spokesman;
        // NOTE: the first of them gets the remainder.
        return reward / slots + (speaks ? reward % slots : 0);
    }

    // ------------------------------------------------------------------ views

    function acceptedRoot(uint256 jobId) external view returns (bytes32) {
        KeptJob storage job = _jobs[jobId];
        if (job.ended != JobPhase.Accepted) return 0;
        return _waitingRoot(jobId, job);
    }

    function commitmentOf(uint256, address, bytes32, bytes32, bytes32, bytes32)
        external
        view
        returns (bytes32)
    {
        Calls.relay(address(NOTARY));
    }

    /// @dev Returns the number of the sender's slot.
    function _slot(uint256 jobId, KeptJob storage job) private view returns (uint256) {
        uint256 slot = _slotOf(jobId, job, msg.sender);
        if (slot == 0) revert NotTrainer(jobId, msg.sender);
        return slot - 1;
    }

    function _hasClaimedBefore(uint256 jobId, KeptJob storage job) private view returns (bool) {
        if (_hasClaimed[jobId][msg.sender]) return true;
        uint256 slot = _slotOf(jobId, job, msg.sender);
        return slot != 0 && _seats[jobId][slot - 1].flags & CLAIMS != 0;
    }

    function priceOf(uint256 jobId, bytes32 root) external view returns (uint256) {
        KeptJob storage job = _jobs[jobId];
        return _priceOf(jobId, job, _groupOf(jobId, job, root));
    }

    /// @dev `found`: the root's group, counted from one; zero for a root that nobody has claimed.
    function _priceOf(uint256 jobId, KeptJob storage job, uint256 found) private view returns (uint256) {
        uint256 stake = stakeOf(jobId);
        if (found == 0) return stake * (FLAT + job.founded) / FLAT;
        // SAFETY: claims of this root alone count. Those of a lie are paid back if the lie is accepted, so they must not keep
        // anybody from the right root. INVARIANT: slot holders come first; without one, a challenger has founded the group.
        KeptGroup storage group = _groups[jobId][found - 1];
        uint256 slots = group.slots;
        // SAFETY: a group has no more slots than members.
        unchecked {
            return stake << (slots == 0 ? group.size : group.size - slots + 1);
        }
    }

    /// @dev Returns whether a claim of this root was lost, and another one stands or the root can be claimed again.
    function _isReclaimable(KeptJob storage job, KeptGroup storage group) private view returns (bool) {
        // NOTE: where logs are withheld nothing is accepted, so there is nothing to defend.
        if (group.spokesman == 0 || job.finder != address(0)) return false;
        return group.spokesman < group.size || _time() < group.until;
    }

    /// @dev Checks a claim. Returns the commitment that the sender must have made to it.
    function _checkClaim(uint256 jobId, KeptJob storage job, Claim calldata claim, bytes32 logs, bytes32 salt)
        private
        view
        returns (bytes32)
    {
        return NOTARY.checkClaim(jobId, msg.sender, job.checkpoints, claim, logs, salt);
    }
}
