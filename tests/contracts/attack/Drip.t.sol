// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Demanded} from "../demands/Demanded.sol";
import {Tree, Trees} from "../support/Trees.sol";
import {Views} from "../support/Views.sol";
import {Jobs} from "contracts/Jobs.sol";
import {Piece, Place, StepProof, Subject} from "contracts/interfaces/IDemands.sol";
import {Claim, IJobs, JobPhase, Terms} from "contracts/interfaces/IJobs.sol";

/// @notice OPEN: a trainer who serves its logs to nobody, and answers each demand in the last second. What is shown until the limit is
/// not enough to follow a long run, so that nobody can dispute it (docs/security.md, section 7).
/// forge-config: default.isolate = true
contract DripTest is Demanded {
    using Trees for Tree;
    using Views for Jobs;

    uint256 private constant LEVELS = 12;
    uint64 private constant MANY = 4096;
    bytes32[] private _logPath;
    bytes32 private _logs;

    /// @dev A tree whose leaves are all the same.
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

    /// @dev The auditor has as many pieces open as it may, and demands the next when one is answered.
    function _drip(Subject memory s, uint64 width) private returns (uint64 got) {
        (bytes32[] memory digests_,) = digestsAt(1);
        StepProof memory proof = StepProof(logTree(1).root(), _logPath);
        uint64 asked = 1;
        while (asked <= width) {
            uint64 some = width + 1 - asked < 256 ? width + 1 - asked : 256;
            Place[] memory list = new Place[](some);
            for (uint64 i = 0; i < some; ++i) {
                list[i] = digests(asked + i);
            }
            demand(s, list);
            asked += some;
        }
        uint64 next = 1;
        while (next < asked) {
            vm.warp(demands.demandOf(s, digests(next)).until);
            demands.answerDigests(s, digests(next), digests_, new bytes32[](0), proof);
            ++next;
            if (jobs.phaseOf(s.jobId) != JobPhase.Challenge) continue;
            ++got;
            if (asked <= MANY) demand(s, digests(asked++));
        }
    }

    function _got(uint32 verdict, uint32 challengePeriod, uint64 width) private returns (uint64 got) {
        Subject memory s = _claimed(verdict, challengePeriod);
        got = _drip(s, width);
        vm.warp(jobs.jobOf(s.jobId).challengeEnd);
        jobs.finalize(s.jobId);
        inPhase(s.jobId, JobPhase.Accepted);
        credited(person(1), STAKE + REWARD, "who served nobody");
    }

    /// @dev Of 4,096 pages of digests, of a run of as many steps, so many are shown in time for a challenge: nobody can follow it.
    function test_pagesThatAnAuditorGetsInTime() public {
        eq(_got(1800, 3600, 64), 948, "64 at a time, for the fees");
    }

    function test_pagesThatAnAuditorGetsInTimeWithAFullList() public {
        eq(_got(1800, 3600, 512), 1296, "512 at a time, which burns 90,000 first deposits");
    }

    function test_pagesThatAnAuditorGetsInTimeInLongPeriods() public {
        eq(_got(1 days, 1 days, 512), 3072, "in eight days");
    }
}
