// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {IJobs} from "../interfaces/IJobs.sol";
import {Group, Job, JobPhase, KeptClaim, KeptJob, StakedClaim, Trainer} from "../interfaces/JobTypes.sol";
import {Kept} from "./Kept.sol";

/// @title Reading
/// @notice Decodes the caller's jobs, claims and groups from its storage. In a word the first field has the lowest
/// bits.
///
///     job       4 of its conditions, file, client ‖ posted, reward, three instants ‖ ended ‖ two counts,
///               reclaim end ‖ four counts ‖ reopened, logs, finder ‖ unrevealed
///     trainer   owner ‖ revealed ‖ stake, commitment
///     claim     owner ‖ stake, group ‖ place ‖ slot ‖ collected, uri
///     group     root, last, match, spokesman ‖ slots ‖ deaths ‖ until ‖ refutable until ‖ at risk ‖ refutes, number of members;
///               members 8 a word
abstract contract Reading is Kept {
    uint256 private constant CONDITION_WORDS = 4;
    /// @dev Of the conditions: its first field is the number of checkpoints.
    uint256 private constant CHECKPOINTS_WORD = 2;
    uint256 private constant JOB_WORDS = 11;
    uint256 private constant TRAINER_WORDS = 2;
    uint256 private constant CLAIM_WORDS = 3;
    uint256 private constant GROUP_WORDS = 5;

    // ------------------------------------------------------------------ reading

    /// @dev Returns a job without its terms, and the account that has them.
    function _readJob(uint256 jobId) internal view returns (Job memory job, address file) {
        KeptJob storage kept = _jobs[jobId];
        uint256 from;
        assembly ("memory-safe") {
            from := kept.slot
        }
        bytes32[] memory words =
            IJobs(msg.sender).wordsAt(bytes32(from + CONDITION_WORDS), JOB_WORDS - CONDITION_WORDS);
        file = _account(words[0]);
        (job.client, job.posted) = (_account(words[1]), uint64(_field(words[1], 160, 64)));
        job.reward = uint256(words[2]);
        bytes32 word = words[3];
        job.commitEnd = uint64(_field(word, 0, 64));
        job.revealEnd = uint64(_field(word, 64, 64));
        job.challengeEnd = uint64(_field(word, 128, 64));
        job.ended = JobPhase(_field(word, 192, 8));
        job.commitments = uint8(_field(word, 200, 8));
        job.reveals = uint8(_field(word, 208, 8));
        word = words[4];
        job.reclaimEnd = uint64(_field(word, 0, 64));
        job.openMatches = uint32(_field(word, 64, 32));
        job.waiting = uint32(_field(word, 96, 32));
        job.founded = uint32(_field(word, 128, 32));
        job.followers = uint32(_field(word, 160, 32));
        job.reopened = uint64(_field(word, 192, 64));
        job.logs = words[5];
        (job.finder, job.unrevealed) = (_account(words[6]), uint96(_field(words[6], 160, 96)));
        if (job.ended == JobPhase.Accepted) {
            (bytes32[] memory group,) = _page(_groupsSlot(jobId), GROUP_WORDS, job.waiting - 1, 1);
            (job.acceptedRoot, job.acceptedLast) = (group[0], group[1]);
        }
        (job.claims, job.groups) = (uint32(_length(_claimsSlot(jobId))), uint32(_length(_groupsSlot(jobId))));
    }

    /// @dev Returns the number of leaves of a run tree of the job at the first stride.
    function _readCheckpoints(uint256 jobId) internal view returns (uint64) {
        KeptJob storage kept = _jobs[jobId];
        uint256 from;
        assembly ("memory-safe") {
            from := kept.slot
        }
        return uint64(_field(_word(from + CHECKPOINTS_WORD), 0, 64));
    }

    function _readTrainers(uint256 jobId) internal view returns (Trainer[] memory list) {
        Trainer[] storage kept = _trainers[jobId];
        uint256 slot;
        assembly ("memory-safe") {
            slot := kept.slot
        }
        (bytes32[] memory words,) = _page(slot, TRAINER_WORDS, 0, type(uint8).max);
        list = new Trainer[](words.length / TRAINER_WORDS);
        for (uint256 i = 0; i < list.length; ++i) {
            bytes32 word = words[i * TRAINER_WORDS];
            uint88 stake = uint88(_field(word, 168, 88));
            list[i] = Trainer(_account(word), _flag(word, 160), stake, words[i * TRAINER_WORDS + 1]);
        }
    }

    function _readClaims(uint256 jobId, uint256 from, uint256 most)
        internal
        view
        returns (StakedClaim[] memory list)
    {
        (bytes32[] memory words, uint256 at_) = _page(_claimsSlot(jobId), CLAIM_WORDS, from, most);
        (, uint256 groups) = _page(_groupsSlot(jobId), GROUP_WORDS, 0, 0);
        list = new StakedClaim[](words.length / CLAIM_WORDS);
        for (uint256 i = 0; i < list.length; ++i) {
            bytes32 owner = words[i * CLAIM_WORDS];
            bytes32 word = words[i * CLAIM_WORDS + 1];
            uint256 group = _field(word, 0, 32);
            bytes32 state = _word(groups + group * GROUP_WORDS + 3);
            list[i] = StakedClaim({
                owner: _account(owner),
                stake: uint96(_field(owner, 160, 96)),
                group: uint32(group),
                slot: _flag(word, 64),
                lost: _field(word, 32, 32) < _field(state, 0, 16),
                collected: _flag(word, 72),
                uri: _string(at_ + i * CLAIM_WORDS + 2, words[i * CLAIM_WORDS + 2])
            });
        }
    }

    function _readGroups(uint256 jobId, uint256 from, uint256 most)
        internal
        view
        returns (Group[] memory list)
    {
        (bytes32[] memory words, uint256 at_) = _page(_groupsSlot(jobId), GROUP_WORDS, from, most);
        list = new Group[](words.length / GROUP_WORDS);
        for (uint256 i = 0; i < list.length; ++i) {
            uint256 k = i * GROUP_WORDS;
            bytes32 word = words[k + 3];
            list[i] = Group({
                root: words[k],
                last: words[k + 1],
                matchId: uint256(words[k + 2]),
                spokesman: uint16(_field(word, 0, 16)),
                slots: uint8(_field(word, 16, 8)),
                deaths: uint24(_field(word, 24, 24)),
                until: uint40(_field(word, 48, 40)),
                refutableUntil: uint40(_field(word, 88, 40)),
                atRisk: uint96(_field(word, 128, 96)),
                refutes: uint32(_field(word, 224, 32)),
                members: _members(at_ + k + 4, uint256(words[k + 4]))
            });
        }
    }

    // ------------------------------------------------------------------ words

    function _claimsSlot(uint256 jobId) private view returns (uint256 slot) {
        KeptClaim[] storage kept = _claims[jobId];
        assembly ("memory-safe") {
            slot := kept.slot
        }
    }

    function _groupsSlot(uint256 jobId) private view returns (uint256 slot) {
        Group[] storage kept = _groups[jobId];
        assembly ("memory-safe") {
            slot := kept.slot
        }
    }

    function _word(uint256 slot) private view returns (bytes32) {
        return IJobs(msg.sender).wordsAt(bytes32(slot), 1)[0];
    }

    function _length(uint256 slot) private view returns (uint256) {
        return uint256(_word(slot));
    }

    /// @dev Returns the words of an array's elements from `from` on, at most `most` of them, and the first slot.
    function _page(uint256 slot, uint256 each, uint256 from, uint256 most)
        private
        view
        returns (bytes32[] memory, uint256)
    {
        uint256 length = _length(slot);
        uint256 count = from < length ? length - from : 0;
        if (count > most) count = most;
        uint256 start = uint256(keccak256(abi.encode(slot)));
        unchecked {
            start += from * each;
        }
        return (IJobs(msg.sender).wordsAt(bytes32(start), count * each), start);
    }

    function _members(uint256 slot, uint256 length) private view returns (uint32[] memory list) {
        bytes32[] memory words = IJobs(msg.sender).wordsAt(keccak256(abi.encode(slot)), (length + 7) / 8);
        list = new uint32[](length);
        for (uint256 i = 0; i < length; ++i) {
            list[i] = uint32(_field(words[i / 8], 32 * (i % 8), 32));
        }
    }

    /// @dev Decodes a stored string. Below 32 bytes it is in its slot, with twice its length; the slot of a longer one
    /// has twice the length plus one.
    function _string(uint256 slot, bytes32 word) private view returns (string memory) {
        if (uint256(word) & 1 == 0) {
            uint256 short = _field(word, 0, 8) / 2;
            bytes memory text = abi.encodePacked(word);
            assembly ("memory-safe") {
                mstore(text, short)
            }
            return string(text);
        }
        uint256 length = uint256(word) / 2;
        bytes memory long =
            abi.encodePacked(IJobs(msg.sender).wordsAt(keccak256(abi.encode(slot)), (length + 31) / 32));
        assembly ("memory-safe") {
            mstore(long, length)
        }
        return string(long);
    }

    function _account(bytes32 word) private pure returns (address) {
        return address(uint160(uint256(word)));
    }

    function _flag(bytes32 word, uint256 offset) private pure returns (bool) {
        return _field(word, offset, 8) != 0;
    }

    function _field(bytes32 word, uint256 offset, uint256 bits) private pure returns (uint256) {
        return (uint256(word) >> offset) & ((1 << bits) - 1);
    }
}
