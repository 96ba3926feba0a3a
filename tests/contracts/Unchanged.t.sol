// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Market} from "./support/Market.sol";
import {Matches} from "./support/Matches.sol";
import {Step} from "./support/Positions.sol";
import {Fault, Kind, Run, Runs} from "./support/Runs.sol";
import {Tree, Trees} from "./support/Trees.sol";
import {Descent, Descents} from "contracts/commit/Descents.sol";
import {Merkle} from "contracts/commit/Merkle.sol";
import {
    Claim,
    Group,
    IJobs,
    Job,
    JobPhase,
    StakedClaim,
    Terms,
    Trainer
} from "contracts/interfaces/IJobs.sol";
import {Exhibit, IReferee, LogProof, Phase, Reason} from "contracts/interfaces/IReferee.sol";

/// @notice A call that Jobs refuses changes nothing visible.
contract UnchangedJobsTest is Market {
    uint256 private _job;

    /// @dev Returns a hash of the whole job, of the money of those who take part, and of the contract's own.
    function _state() private returns (bytes32) {
        // NOTE: without the phase, which time alone changes.
        (, Job memory job, Trainer[] memory trainers, StakedClaim[] memory claims, Group[] memory groups) =
            jobs.viewOf(_job);
        return keccak256(
            abi.encode(
                abi.encode(job, trainers, claims, groups),
                jobs.jobCount(),
                address(jobs).balance,
                CLIENT.balance,
                person(1).balance,
                person(2).balance,
                jobs.credit(person(1)),
                jobs.credit(person(2))
            )
        );
    }

    function test_anUnknownOpsetPostsNothing() public {
        Terms memory t = terms(1);
        t.program.opsetVersion = 2;
        bytes32 before = _state();
        vm.prank(CLIENT);
        vm.expectRevert(abi.encodeWithSelector(IReferee.UnknownOpset.selector, 2));
        jobs.post{value: REWARD}(t);
        eq(_state(), before, "state");
        t.program.opsetVersion = 1;
        _job = post(t);
        yes(_state() != before, "the same post is accepted with the known one");
    }

    function test_anInsufficientStakeTakesNoSlot() public {
        _job = post(1);
        address who = person(1);
        bytes32 before = _state();
        vm.prank(who);
        vm.expectRevert(abi.encodeWithSelector(IJobs.WrongStake.selector, STAKE - 1, STAKE));
        jobs.join{value: STAKE - 1}(_job);
        eq(_state(), before, "state");
        join(_job, who);
        yes(_state() != before, "the whole stake does");
    }

    function test_aLateMoveOfEachPhaseChangesNothing() public {
        _job = post(2);
        join(_job, person(1));
        commit(_job, person(1), 7);
        pass(PERIOD); // Reveal
        bytes32 before = _state();
        vm.prank(person(2));
        vm.expectRevert(
            abi.encodeWithSelector(IJobs.WrongPhase.selector, _job, JobPhase.Reveal, JobPhase.Training)
        );
        jobs.join{value: STAKE}(_job);
        eq(_state(), before, "a late join");

        pass(PERIOD); // Challenge, nothing revealed
        revealRefused(_job, person(1), 7, 7, IJobs.WrongPhase.selector);
        eq(_state(), before, "a late reveal");

        _job = claimed(7);
        commitChallenge(_job, person(2), 8);
        before = _state();
        pass(PERIOD); // Closing
        challengeRefused(_job, person(2), 8, STAKE, IJobs.RootClosed.selector);
        eq(_state(), before, "a late challenge");
    }

    function test_aDoubleClaimChangesNothing() public {
        _job = claimed(7);
        bytes32 before = _state();
        challengeRefused(_job, person(1), 8, STAKE, IJobs.AlreadyClaimed.selector);
        eq(_state(), before, "two claims of one account");
        commitChallenge(_job, person(2), 7);
        challengeRefused(_job, person(2), 7, 2 * STAKE - 1, IJobs.WrongStake.selector);
        eq(_state(), before, "a second claim of a root, for less than it costs");
        challenge(_job, person(2), 8);
        yes(_state() != before, "another claim of another account");
    }

    function test_aSecondSlotInAModeWithLogsPostsNothing() public {
        Terms memory t = roundedTerms();
        t.slots = 2;
        bytes32 before = _state();
        vm.prank(CLIENT);
        vm.expectRevert(abi.encodeWithSelector(IJobs.OneSlotOnly.selector, 2));
        jobs.post{value: REWARD}(t);
        eq(_state(), before, "state");
    }

    function test_aDoubleRevealChangesNothing() public {
        _job = post(2);
        join(_job, person(1));
        join(_job, person(2));
        commit(_job, person(1), 7);
        commit(_job, person(2), 8);
        reveal(_job, person(1), 7);
        bytes32 before = _state();
        revealRefused(_job, person(1), 7, 7, IJobs.AlreadyClaimed.selector);
        eq(_state(), before, "state");
    }

    function test_aWrongProofOfTheLastCheckpointClaimsNothing() public {
        _job = claimed(7);
        Claim memory c = claim(8);
        c.last = root(9);
        bytes32 commitment = jobs.commitmentOf(_job, person(2), c.root, c.last, 0, 0);
        vm.prank(person(2));
        jobs.commitChallenge(_job, commitment);
        pass(1);
        bytes32 before = _state();
        vm.prank(person(2));
        refuses(Merkle.PathMismatch.selector);
        jobs.challenge{value: STAKE}(_job, c, 0);
        eq(_state(), before, "state");
        challenge(_job, person(2), 8);
        yes(_state() != before, "the right proof does");
    }
}

/// @notice A call that the referee refuses changes nothing, including clocks.
contract UnchangedMatchTest is Matches {
    using Trees for Tree;

    Run private _run0 = Runs.right();
    Run private _run1 = Runs.wrong(Fault(Kind.Output, 9, 4, 0, 1));

    function _state(uint256 id) private view returns (bytes32) {
        return keccak256(abi.encode(referee.getMatch(id), decisions));
    }

    function test_aWrongProofOfEachMoveChangesNothing() public {
        uint256 id = open(_run0, _run1);
        pass(10); // an accepted move would charge a clock
        bytes32 before = _state(id);
        bytes32[] memory nodes = childrenOf(id, _run0);
        refuses(Descents.WrongNode.selector);
        reveal(id, 1, nodes);
        eq(_state(id), before, "reveal");

        descendRefused(id);
        eq(_state(id), before, "descend");
        reveal(id, 0, nodes);
        yes(_state(id) != before, "a right one is accepted, and charged");
    }

    function descendRefused(uint256 id) private {
        bytes32[] memory path = new bytes32[](referee.getMatch(id).height);
        Step memory step;
        step.way = Descent(0, bytes32(uint256(1)), path, bytes32(uint256(2)), path);
        refuses(Descents.WrongNode.selector);
        send(id, step);
    }

    function test_aLogThatIsNotTheJobsDecidesNothing() public {
        round();
        (uint256 id, Run memory run0, Run memory run1) = atRecord(Fault(Kind.Log, 10, 4, 0, 1));
        Exhibit memory e = exhibit(id, run0, run1);
        LogProof memory proof;
        Tree memory tree = Runs.logTree(10);
        (proof.log, proof.stepRoot, proof.nodePath) = (e.record1.log, tree.root(), tree.path(4));
        proof.stepPath = Runs.runLogTree().path(9);
        pass(10);
        bytes32 before = _state(id);
        refuses(Merkle.PathMismatch.selector);
        judgeLog(id, e, proof);
        eq(_state(id), before, "state");
        proof.log = tree.levels[0][4];
        judgeLog(id, e, proof);
        decided(id, 2, Reason.Log);
    }

    function test_aRefinementOfTheWrongSenderChangesNothing() public {
        uint256 id = open(_run0, _run1);
        descend(id, _run0, _run1);
        (bytes32 root, bytes32[] memory path) = refinement(id, _run0);
        yes(referee.getMatch(id).phase == Phase.Refine, "in the phase that it is for");
        pass(10);
        bytes32 before = _state(id);
        vm.expectRevert(abi.encodeWithSelector(IReferee.NotSpokesman.selector, bob, alice));
        vm.prank(bob);
        referee.refine(id, matchTerms(id), here(id), 0, root, path);
        eq(_state(id), before, "the other side's spokesman");
        vm.expectRevert(abi.encodeWithSelector(IReferee.NotSpokesman.selector, address(this), alice));
        referee.refine(id, matchTerms(id), here(id), 0, root, path);
        eq(_state(id), before, "a stranger");
        vm.prank(alice);
        referee.refine(id, matchTerms(id), here(id), 0, root, path);
        yes(_state(id) != before, "the spokesman himself");
    }

    function test_aLateMoveChangesNothing() public {
        uint256 id = open(_run0, _run1);
        reveal(id, 0, childrenOf(id, _run0));
        bytes32[] memory nodes = childrenOf(id, _run1);
        bytes32 before = _state(id);
        refuses(IReferee.NotLate.selector);
        referee.timeout(id);
        eq(_state(id), before, "a timeout that is too early");
        pass(CLOCK + 1);
        vm.expectRevert(abi.encodeWithSelector(IReferee.Late.selector, id, 2));
        reveal(id, 1, nodes);
        eq(_state(id), before, "a move that is too late");
        referee.timeout(id);
        yes(_state(id) != before, "the timeout that is due");
    }
}
