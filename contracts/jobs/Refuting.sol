// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Calls} from "../commit/Calls.sol";
import {INotary} from "../interfaces/INotary.sol";
import {Group, JobPhase, KeptJob, Refutation} from "../interfaces/JobTypes.sol";
import {Pairing} from "./Pairing.sol";

/// @title Refuting
/// @notice Refutations: a stake on one interval of a claimed run, without a claim of a whole run. See docs/protocol.md,
/// section 6.
///
///     claimed run tree     C_1 ... C_(k-1)  C_k  C_(k+1) ... C_n ─▶ claimed root
///     refutation           C_1 ... C_(k-1)  C'   C_(k+1) ... C_n ─▶ its root: the first difference is leaf k
///
/// @dev INVARIANT: a refutation is in no queue but that of its group, and `_groupOf` does not name it. So it never
/// waits, is never accepted, and nobody claims or requests anything of it.
abstract contract Refuting is Pairing {
    // ------------------------------------------------------------------ storage

    struct Challenge {
        bytes32 commitment;
        uint64 committedAt;
    }

    uint32 public immutable COMMIT_AGE;

    mapping(uint256 jobId => mapping(address challenger => Challenge)) private _challenges;

    // ------------------------------------------------------------------ constructor

    constructor(uint32 commitAge) {
        // SAFETY: a commitment of age zero could be made and opened in one block; one of a period's age comes too late.
        uint32 most = NOTARY.MIN_PERIOD() - 1;
        if (commitAge == 0 || commitAge > most) revert BadCommitAge(commitAge, 1, most);
        COMMIT_AGE = commitAge;
    }

    // ------------------------------------------------------------------ moves

    function commitChallenge(uint256 jobId, bytes32 commitment) external {
        if (commitment == 0) revert EmptyCommitment();
        // NOTE: the chain's time: blocks must pass, and they do in a pause.
        _challenges[jobId][msg.sender] = Challenge(commitment, uint64(block.timestamp));
        emit ChallengeCommitted(jobId, msg.sender, commitment);
    }

    function refute(uint256 jobId, Refutation calldata refutation, bytes32 salt)
        external
        payable
        nonReentrant
    {
        KeptJob storage job = _jobs[jobId];
        if (_claimOf[jobId][msg.sender] != 0) revert AlreadyClaimed(jobId, msg.sender);
        uint32 refuted = _refutable(jobId, job, refutation.root);
        bytes32 want = _ripe(jobId);
        bytes32 root = abi.decode(Calls.ask(address(NOTARY), INotary.checkRefutation.selector), (bytes32));
        bytes32 have =
            NOTARY.commitmentOf(jobId, msg.sender, root, refutation.computed, refutation.root, salt);
        if (have != want) revert WrongCommitment(have, want);
        uint256 stake = refutationPriceOf(jobId, refutation.root);
        // SAFETY: at least, not exactly, because a refutation just before this one makes this one dearer.
        if (msg.value < stake) revert WrongStake(msg.value, stake);

        uint32 number = uint32(_groups[jobId].length);
        bool last = refutation.interval == job.terms.checkpoints - 1;
        _found(jobId, root, last ? refutation.computed : _groups[jobId][refuted].last).refutes = refuted + 1;
        _add(jobId, number, stake, false, refutation.uri);
        emit Refuted(jobId, number, refuted, refutation.interval, refutation.claimed, refutation.computed);
        Queue storage queue = _queues[jobId][refuted];
        queue.groups[queue.length++] = number;
        if (job.waiting == refuted + 1) {
            job.waiting = 0;
            _enter(jobId, job, refuted);
        }
        _credit(msg.sender, msg.value - stake);
    }

    // ------------------------------------------------------------------ views

    function refutationPriceOf(uint256 jobId, bytes32 root) public view returns (uint256) {
        uint256 number = _groupOf[jobId][root];
        uint256 count = number == 0 ? 0 : _queues[jobId][uint32(number - 1)].length;
        return stakeOf(jobId) << count;
    }

    function challengeOf(uint256 jobId, address account)
        external
        view
        returns (bytes32 commitment, uint64 committedAt)
    {
        Challenge storage committed = _challenges[jobId][account];
        return (committed.commitment, committed.committedAt);
    }

    /// @dev Returns the sender's commitment for a challenge. SAFETY: a party that sees a pending claim commits to it in
    /// that block at the earliest, so the claim has `COMMIT_AGE` seconds to get in before a copy is old enough.
    function _ripe(uint256 jobId) internal view returns (bytes32) {
        Challenge storage committed = _challenges[jobId][msg.sender];
        if (committed.commitment == 0) revert NothingCommitted(jobId, msg.sender);
        uint256 from = uint256(committed.committedAt) + COMMIT_AGE;
        if (block.timestamp < from) revert TooSoon(from);
        return committed.commitment;
    }

    /// @dev Returns the group of a root that can be refuted now.
    function _refutable(uint256 jobId, KeptJob storage job, bytes32 root) private view returns (uint32) {
        bool closed = phaseOf(jobId) == JobPhase.Closing;
        if (!closed) _checkPhase(jobId, JobPhase.Challenge);
        // NOTE: where logs are withheld nothing is accepted.
        if (job.finder != address(0) || !_isClaimed(jobId, root)) revert NothingToRefute(jobId, root);
        uint32 number = uint32(_groupOf[jobId][root] - 1);
        Group storage group = _groups[jobId][number];
        if (closed && _time() >= group.until) revert RootClosed(root);
        return number;
    }
}
