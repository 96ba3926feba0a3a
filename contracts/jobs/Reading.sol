// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Group, IJobs, Job, JobPhase, KeptJob, StakedClaim, Trainer} from "../interfaces/IJobs.sol";
import {Kept} from "./Kept.sol";

/// @title Reading
/// @notice The caller's jobs, claims and groups, from the words of its storage. In a word the first field has the lowest bits.
///
///     job       4 of its conditions, file, client ‖ posted, reward, three instants ‖ ended ‖ four counts ‖ ..,
///               accepted root, accepted last, logs, finder
///     trainer   owner ‖ revealed, commitment
///     claim     owner ‖ group ‖ slot ‖ lost, uri
///     group     root, last, match, spokesman, number of members; these elsewhere, 32 a word
abstract contract Reading is Kept {
    uint256 private constant CONDITION_WORDS = 4;
    uint256 private constant JOB_WORDS = 12;
    uint256 private constant TRAINER_WORDS = 2;
    uint256 private constant CLAIM_WORDS = 2;
    uint256 private constant GROUP_WORDS = 5;

    // ------------------------------------------------------------------ what is read

    /// @dev All but the terms, and where they are.
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
        job.openMatches = uint8(_field(word, 216, 8));
        job.waiting = uint8(_field(word, 224, 8));
        (job.acceptedRoot, job.acceptedLast, job.logs) = (words[4], words[5], words[6]);
        job.finder = _account(words[7]);
    }

    function _readTrainers(uint256 jobId) internal view returns (Trainer[] memory list) {
        Trainer[] storage kept = _trainers[jobId];
        uint256 slot;
        assembly ("memory-safe") {
            slot := kept.slot
        }
        (bytes32[] memory words,) = _array(slot, TRAINER_WORDS);
        list = new Trainer[](words.length / TRAINER_WORDS);
        for (uint256 i = 0; i < list.length; ++i) {
            bytes32 word = words[i * TRAINER_WORDS];
            list[i] = Trainer(_account(word), _flag(word, 160), words[i * TRAINER_WORDS + 1]);
        }
    }

    function _readClaims(uint256 jobId) internal view returns (StakedClaim[] memory list) {
        StakedClaim[] storage kept = _claims[jobId];
        uint256 slot;
        assembly ("memory-safe") {
            slot := kept.slot
        }
        (bytes32[] memory words, uint256 from) = _array(slot, CLAIM_WORDS);
        list = new StakedClaim[](words.length / CLAIM_WORDS);
        for (uint256 i = 0; i < list.length; ++i) {
            uint256 at_ = i * CLAIM_WORDS;
            bytes32 word = words[at_];
            list[i] = StakedClaim({
                owner: _account(word),
                group: uint8(_field(word, 160, 8)),
                slot: _flag(word, 168),
                lost: _flag(word, 176),
                uri: _string(from + at_ + 1, words[at_ + 1])
            });
        }
    }

    function _readGroups(uint256 jobId) internal view returns (Group[] memory list) {
        Group[] storage kept = _groups[jobId];
        uint256 slot;
        assembly ("memory-safe") {
            slot := kept.slot
        }
        (bytes32[] memory words, uint256 from) = _array(slot, GROUP_WORDS);
        list = new Group[](words.length / GROUP_WORDS);
        for (uint256 i = 0; i < list.length; ++i) {
            uint256 at_ = i * GROUP_WORDS;
            list[i] = Group({
                root: words[at_],
                last: words[at_ + 1],
                matchId: uint256(words[at_ + 2]),
                spokesman: uint8(_field(words[at_ + 3], 0, 8)),
                members: _members(from + at_ + 4, uint256(words[at_ + 4]))
            });
        }
    }

    // ------------------------------------------------------------------ words

    /// @dev The words of an array's elements, and where they begin.
    function _array(uint256 slot, uint256 each) private view returns (bytes32[] memory, uint256 from) {
        uint256 length = uint256(IJobs(msg.sender).wordsAt(bytes32(slot), 1)[0]);
        from = uint256(keccak256(abi.encode(slot)));
        return (IJobs(msg.sender).wordsAt(bytes32(from), length * each), from);
    }

    function _members(uint256 slot, uint256 length) private view returns (uint8[] memory list) {
        bytes32[] memory words = IJobs(msg.sender).wordsAt(keccak256(abi.encode(slot)), (length + 31) / 32);
        list = new uint8[](length);
        for (uint256 i = 0; i < length; ++i) {
            list[i] = uint8(_field(words[i / 32], 8 * (i % 32), 8));
        }
    }

    /// @dev A string of less than 32 bytes is in its word, with twice its length; of a longer one that has twice the length and one.
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
