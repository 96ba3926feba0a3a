// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Calls} from "../commit/Calls.sol";
import {INotary} from "../interfaces/INotary.sol";
import {JobPhase, KeptGroup, KeptJob, Refutation} from "../interfaces/JobTypes.sol";
import {Pairing} from "./Pairing.sol";

/// @title Refuting
/// @notice Refutations: a stake on one interval of a claimed run, without a claim of a whole run. See docs/protocol.md,
/// section 6.
///
///     claimed run tree     C_1 ... C_(k-1)  C_k  C_(k+1) ... C_n ─▶ claimed root
///     refutation           C_1 ... C_(k-1)  C'   C_(k+1) ... C_n ─▶ its root: the first difference is leaf k
///
/// @dev INVARIANT: a refutation is in no queue but that of its group, and `_groupOf` does not return it. So it never
/// waits, is never accepted, and nobody claims or requests anything of it.
abstract contract Refuting is Pairing {
    // ------------------------------------------------------------------ storage

    uint32 public immutable COMMIT_AGE;

    /// @notice The second of the chain in which a commitment was first made; zero if it was not. NOTE: a commitment binds
    /// its sender, so an account has as many as it likes, and who copies one has none.
    mapping(uint256 jobId => mapping(bytes32 commitment => uint64)) public committedAt;

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
        // SAFETY: the first time counts: a stranger that commits to it again must not make it younger. NOTE: no refusal,
        // or a copy that comes first would look like a failure.
        if (committedAt[jobId][commitment] != 0) return;
        // NOTE: the chain's time: blocks must pass, and they do in a pause.
        committedAt[jobId][commitment] = uint64(block.timestamp);
        emit ChallengeCommitted(jobId, msg.sender, commitment);
    }

    function refute(uint256 jobId, Refutation calldata refutation, bytes32 salt)
        external
        payable
        nonReentrant
    {
        KeptJob storage job = _jobs[jobId];
        uint32 refuted = _refutable(jobId, job, refutation.root);
        bytes32 root = abi.decode(Calls.ask(address(NOTARY), INotary.checkRefutation.selector), (bytes32));
        _checkRipe(
            jobId, NOTARY.commitmentOf(jobId, msg.sender, root, refutation.computed, refutation.root, salt)
        );
        uint256 stake = refutationPriceOf(jobId, refutation.root);
        _take(msg.value, stake);

        (uint32 number, uint32 claim) = (_groupCount(job), _claimCount(job));
        _refutationRoots[jobId][number] = root;
        KeptGroup storage group = _groups[jobId][number];
        group.refutes = uint24(refuted + 1);
        _addMember(jobId, number, group, claim);
        _sit(_seatOf(jobId, job, claim), stake, CLAIMS | REFUTES, bytes32(uint256(number)));
        ++job.refutations;
        bytes32 last = refutation.interval == job.checkpoints - 1 ? refutation.computed : bytes32(0);
        emit Claimed(jobId, msg.sender, claim, number, root, last, stake, refutation.uri);
        emit Refuted(jobId, number, refuted, refutation.interval, refutation.claimed, refutation.computed);
        Queue storage queue = _queues[jobId][refuted];
        queue.groups[queue.length++] = number;
        if (job.waiting == refuted + 1) {
            job.waiting = 0;
            _enter(jobId, job, refuted);
        }
    }

    // ------------------------------------------------------------------ views

    function refutationPriceOf(uint256 jobId, bytes32 root) public view returns (uint256) {
        uint256 number = _groupOf(jobId, _jobs[jobId], root);
        uint256 count = number == 0 ? 0 : _queues[jobId][uint32(number - 1)].length;
        return stakeOf(jobId) << count;
    }

    /// @dev Reverts unless a commitment of the sender is old enough. SAFETY: a party that sees a pending claim commits to
    /// it in that block at the earliest, so the claim has `COMMIT_AGE` seconds to get in before a copy is old enough.
    function _checkRipe(uint256 jobId, bytes32 commitment) internal view {
        uint256 at = committedAt[jobId][commitment];
        if (at == 0) revert NothingCommitted(jobId, msg.sender);
        if (block.timestamp < at + COMMIT_AGE) revert TooSoon(at + COMMIT_AGE);
    }

    /// @dev Returns the group of a root that can be refuted now.
    function _refutable(uint256 jobId, KeptJob storage job, bytes32 root) private view returns (uint32) {
        bool closed = phaseOf(jobId) == JobPhase.Closing;
        if (!closed) _checkPhase(jobId, JobPhase.Challenge);
        // NOTE: where logs are withheld nothing is accepted.
        if (job.finder != address(0) || !_isClaimed(jobId, root)) revert NothingToRefute(jobId, root);
        uint32 number = uint32(_groupOf(jobId, job, root) - 1);
        KeptGroup storage group = _groups[jobId][number];
        if (closed && _time() >= group.until && _time() >= group.refutableUntil) revert RootClosed(root);
        return number;
    }
}
