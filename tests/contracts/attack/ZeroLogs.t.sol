// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Requested} from "../availability/Requested.sol";
import {Tree, Trees} from "../support/Trees.sol";
import {Views} from "../support/Views.sol";
import {Jobs} from "contracts/Jobs.sol";
import {Piece, Place, Subject} from "contracts/interfaces/IDataAvailability.sol";
import {Claim, IJobs, JobPhase, Terms} from "contracts/interfaces/IJobs.sol";

/// @notice A trainer reveals zero as its logs, which is the root of no tree of several steps. Once they are known to be
/// withheld the job's end does not wait for requests of them, as with other logs.
contract ZeroLogsTest is Requested {
    using Trees for Tree;
    using Views for Jobs;

    function _claimed() private returns (uint256 job) {
        Terms memory t = roundedTerms();
        (t.program.nodeCount, t.program.steps) = (3, STEPS);
        t.program.strides = new uint64[](2);
        (t.program.strides[0], t.program.strides[1]) = (2, 1);
        job = post(t);
        join(job, person(1));
        Tree memory tree = runTree();
        Claim memory c = Claim(tree.root(), stepTree(STEPS).root(), tree.path(2), "http://claim");
        bytes32 commitment = jobs.commitmentOf(job, person(1), c.root, c.last, 0, "salt");
        vm.prank(person(1));
        jobs.commit(job, commitment);
        vm.prank(person(1));
        jobs.reveal(job, c, 0, "salt");
    }

    function test_aListOfRequestsOfZeroLogsDoesNotKeepAVoidJobFromItsEnd() public {
        uint256 job = _claimed();
        Subject memory s = Subject(IJobs(address(jobs)), job, 0);
        request(s, digests(1));
        pass(PERIOD + 1);
        dataAvailability.close(s, digests(1));
        yes(jobs.jobOf(job).finder == AUDITOR, "withheld, and known to be");
        otherClaimed(job, person(3));
        vm.warp(jobs.jobOf(job).challengeEnd - 1);
        for (uint64 from = 0; from < 512; from += 64) {
            Place[] memory list = new Place[](64);
            for (uint64 i = 0; i < 64; ++i) {
                list[i] = blocks(1, 0, from + i);
            }
            requestAs(address(0xBAD), s, list);
        }
        pass(1);
        finalize(job);
        inPhase(job, JobPhase.Void);
        credited(person(1), 0, "the trainer has lost its stake");
        credited(person(3), STAKE, "who has claimed has its own");
        credited(CLIENT, REWARD, "the reward");
    }
}
