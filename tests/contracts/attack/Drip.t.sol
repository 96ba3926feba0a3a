// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Requested} from "../availability/Requested.sol";
import {Tree, Trees} from "../support/Trees.sol";
import {Views} from "../support/Views.sol";
import {Jobs} from "contracts/Jobs.sol";
import {Piece, Place, StepProof, Subject} from "contracts/interfaces/IDataAvailability.sol";
import {Claim, IJobs, JobPhase, Terms} from "contracts/interfaces/IJobs.sol";
import {Position} from "contracts/interfaces/IReferee.sol";

/// @notice A trainer serves its logs to nobody, and answers each request in the last second. A party that follows the
/// run by these answers sees all of it, and has a challenge period left. But pages that nobody waits for extend
/// nothing.
/// forge-config: default.isolate = true
contract DripTest is Requested {
    using Trees for Tree;
    using Views for Jobs;

    uint256 private constant LEVELS = 12;
    uint64 private constant MANY = 4096;
    bytes32[] private _logPath;
    bytes32 private _logs;

    /// @dev Returns a tree of equal leaves.
    function _same(uint8 tag, bytes32 node) private pure returns (bytes32, bytes32[] memory path) {
        path = new bytes32[](LEVELS);
        for (uint256 i = 0; i < LEVELS; ++i) {
            path[i] = node;
            node = sha256(abi.encodePacked(tag, node, node));
        }
        return (node, path);
    }

    function _claimed(uint32 verdict, uint32 challengePeriod) private returns (Subject memory s) {
        Terms memory t = roundedTerms();
        (t.program.nodeCount, t.program.steps) = (3, MANY);
        t.rules.verdictPeriod = verdict;
        t.challengePeriod = challengePeriod;
        uint256 job = post(t);
        join(job, person(1));
        Claim memory c;
        (c.root, c.lastPath) = _same(0x16, stepTree(2).root());
        (c.last, c.uri) = (c.lastPath[0], "http://claim");
        (_logs, _logPath) = _same(0x18, logTree(1).root());
        bytes32 commitment = jobs.commitmentOf(job, person(1), c.root, c.last, _logs, "salt");
        vm.prank(person(1));
        jobs.commit(job, commitment);
        vm.prank(person(1));
        jobs.reveal(job, c, _logs, "salt");
        return Subject(IJobs(address(jobs)), job, _logs);
    }

    /// @dev The auditor has as many pieces open as allowed, and requests the next one when one is answered.
    function _drip(Subject memory s, uint64 width) private {
        (bytes32[] memory digests_,) = digestsAt(1);
        StepProof memory proof = StepProof(logTree(1).root(), _logPath);
        uint64 asked = 1;
        while (asked <= width) {
            uint64 some = width + 1 - asked < 96 ? width + 1 - asked : 96;
            Place[] memory list = new Place[](some);
            for (uint64 i = 0; i < some; ++i) {
                list[i] = digests(asked + i);
            }
            request(s, list);
            asked += some;
        }
        uint64 next = 1;
        while (next < asked) {
            vm.warp(dataAvailability.requestOf(s, digests(next)).until);
            dataAvailability.provideDigests(s, digests(next), digests_, new bytes32[](0), proof);
            ++next;
            inPhase(s.jobId, JobPhase.Challenge);
            if (asked <= MANY) request(s, digests(asked++));
        }
    }

    /// @dev The auditor sees the last page, commits to another claim, and makes it in the last second.
    function _followed(uint32 verdict, uint32 challengePeriod, uint64 width) private {
        Subject memory s = _claimed(verdict, challengePeriod);
        _drip(s, width);
        yes(jobs.jobOf(s.jobId).challengeEnd >= time.time() + challengePeriod, "a challenge period is left");
        Claim memory c;
        (c.root, c.lastPath) = _same(0x16, root(9));
        (c.last, c.uri) = (root(9), "http://claim");
        bytes32 commitment = jobs.commitmentOf(s.jobId, AUDITOR, c.root, c.last, 0, "salt");
        vm.prank(AUDITOR);
        jobs.commitChallenge(s.jobId, commitment);
        vm.warp(time.time() + challengePeriod - 1);
        vm.deal(AUDITOR, STAKE);
        vm.prank(AUDITOR);
        jobs.challenge{value: STAKE}(s.jobId, c, "salt");
        uint256 id = jobs.groupsOf(s.jobId)[0].matchId;
        Position memory at;
        (at.agreed, at.root[1], at.node[1]) = (jobs.programOf(s.jobId).initialRoot, c.root, c.root);
        at.root[0] = at.node[0] = jobs.groupsOf(s.jobId)[0].root;
        bytes32[] memory children = new bytes32[](16);
        for (uint256 i = 0; i < 16; ++i) {
            children[i] = c.lastPath[LEVELS - 4];
        }
        referee.reveal(id, at, 1, children);
        vm.warp(referee.deadline(id) + 1);
        referee.timeout(id);
        yes(jobs.claimsOf(s.jobId)[0].lost, "the trainer, who shows nothing, has lost its stake");
        credited(AUDITOR, STAKE / 2, "half of it is the auditor's");
    }

    /// @dev All 4,096 pages of digests, of a run of as many steps, are shown before the phase ends.
    function test_everyPageIsShownInTime() public {
        _followed(1800, 3600, 64);
    }

    function test_everyPageIsShownInTimeToWhoFillsTheList() public {
        _followed(1800, 3600, 512);
    }

    function test_everyPageIsShownInTimeInLongPeriods() public {
        _followed(1 days, 1 days, 64);
    }

    function test_everyPageIsShownInTimeInShortPeriods() public {
        _followed(60, 60, 64);
    }

    /// @dev An attacker requests pages and answers them in the same second, again and again, to delay the end for gas.
    function _selfAnswered(uint32 verdict, uint32 challengePeriod) private {
        Subject memory s = _claimed(verdict, challengePeriod);
        uint256 limit = jobs.jobOf(s.jobId).revealEnd + challengePeriod;
        limit += 4 * (uint256(verdict) + challengePeriod) + 61_440;
        (bytes32[] memory digests_,) = digestsAt(1);
        StepProof memory proof = StepProof(logTree(1).root(), _logPath);
        uint64 asked = 1;
        while (jobs.phaseOf(s.jobId) == JobPhase.Challenge) {
            Place[] memory list = new Place[](16);
            for (uint64 i = 0; i < 16; ++i) {
                list[i] = digests(asked + i);
            }
            request(s, list);
            for (uint64 i = 0; i < 16; ++i) {
                dataAvailability.provideDigests(s, list[i], digests_, new bytes32[](0), proof);
            }
            asked += 16;
            yes(jobs.jobOf(s.jobId).challengeEnd <= limit, "no later than without them");
            pass((uint256(verdict) + challengePeriod) / 2);
        }
    }

    function test_whoAnswersItsOwnRequestsPutsNothingOff() public {
        _selfAnswered(1800, 3600);
    }

    function test_whoAnswersItsOwnRequestsPutsNothingOffInLongPeriods() public {
        _selfAnswered(1 days, 1 days);
    }

    function test_whoAnswersItsOwnRequestsPutsNothingOffInShortPeriods() public {
        _selfAnswered(600, 600);
    }
}
