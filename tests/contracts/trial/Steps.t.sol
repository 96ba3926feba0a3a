// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Tree, Trees} from "../support/Trees.sol";
import {Tried} from "./Tried.sol";
import {Descent} from "contracts/commit/Descents.sol";
import {Dispute, ICourt, Stage, Trial} from "contracts/interfaces/ICourt.sol";
import {Inputs, Opening} from "contracts/interfaces/IExaminer.sol";

/// @notice From an element to one step of its chain, and the clocks meanwhile. The chain is a sum of 600 elements.
contract StepsTest is Tried {
    using Trees for Tree;

    uint64[] private truth = _partial(type(uint256).max);

    /// @dev Returns the sums of the first elements, wrong from some step on.
    function _partial(uint256 wrongFrom) private pure returns (uint64[] memory sums) {
        sums = new uint64[](COUNT + 1);
        uint64[] memory values = a();
        for (uint256 i = 0; i < COUNT; ++i) {
            sums[i + 1] = sums[i] + values[i] + (i == wrongFrom ? 1 : 0);
        }
    }

    function _opened(uint64 value0, uint64 value1) private returns (Dispute memory d) {
        d = disputeOfSum(value0, value1);
        open(d);
        showOutput(d, 0, treeOf(single(value0)).root());
        showOutput(d, 1, treeOf(single(value1)).root());
        inStage(Stage.Leaf);
        bytes memory leaf0 = leafOf(single(value0), 0);
        compare(d, leaf0, leafOf(single(value1), 0), inputsOfSum(), noLog());
        inStage(Stage.Post);
        Trial memory t = court.getTrial(trialId);
        eq(t.steps, COUNT, "steps");
        eq(t.stateBytes, 8, "bytes of a state");
    }

    function _states(uint64[] memory sums) private view returns (bytes memory states) {
        uint64[] memory places = court.places(trialId);
        for (uint256 i = 0; i + 1 < places.length; ++i) {
            states = abi.encodePacked(states, sums[places[i]]);
        }
    }

    /// @dev Plays a round: side 0 posts its states, side 1 names the first one where its own differs.
    function _round(uint64[] memory sums0, uint64[] memory sums1) private {
        bytes memory states = _states(sums0);
        vm.prank(alice);
        post(states);
        uint64[] memory places = court.places(trialId);
        uint256 place = 0;
        while (place + 1 < places.length && sums0[places[place]] == sums1[places[place]]) ++place;
        bytes memory own = place + 1 < places.length ? abi.encodePacked(sums1[places[place]]) : bytes("");
        vm.prank(bob);
        answer(states, place, own);
    }

    function _toStep(uint64[] memory sums0, uint64[] memory sums1) private {
        for (uint256 rounds = 0; court.getTrial(trialId).stage == Stage.Post; ++rounds) {
            yes(rounds < 4, "the interval shrinks");
            _round(sums0, sums1);
        }
        inStage(Stage.Step);
    }

    function _judge(Dispute memory d) private {
        uint64 lo = court.getTrial(trialId).lo;
        Opening[] memory openings = new Opening[](1);
        openings[0] = opening(0, a(), lo);
        judge(d, inputsOfSum(), abi.encodePacked(truth[lo]), openings);
    }

    function test_aWrongStepLosesWhereverItIs() public {
        uint256[5] memory steps = [uint256(0), 1, 255, 300, 599];
        for (uint256 i = 0; i < steps.length; ++i) {
            (uint64[] memory right, uint64[] memory wrong) = (truth, _partial(steps[i]));
            for (uint8 liar = 0; liar < 2; ++liar) {
                (uint64[] memory sums0, uint64[] memory sums1) = liar == 0 ? (wrong, right) : (right, wrong);
                Dispute memory d = _opened(sums0[COUNT], sums1[COUNT]);
                _toStep(sums0, sums1);
                eq(court.getTrial(trialId).lo, steps[i], "the wrong step");
                _judge(d);
                decided(uint8(1 << liar));
            }
        }
    }

    function test_bothCanBeWrongInOneStep() public {
        (uint64[] memory sums0, uint64[] memory sums1) = (_partial(300), _partial(300));
        for (uint256 i = 301; i <= COUNT; ++i) {
            ++sums1[i];
        }
        Dispute memory d = _opened(sums0[COUNT], sums1[COUNT]);
        _toStep(sums0, sums1);
        _judge(d);
        decided(3);
    }

    function test_statesAreSaidByTheSidesThemselvesAndFitThePlaces() public {
        uint64[] memory wrong = _partial(300);
        _opened(wrong[COUNT], truth[COUNT]);
        eq(court.places(trialId).length, 25, "places of a round");
        bytes memory states = _states(wrong);
        vm.expectRevert(abi.encodeWithSelector(ICourt.NotPlayer.selector, bob, alice));
        vm.prank(bob);
        post(states);
        vm.prank(alice);
        refuses(ICourt.BadStates.selector);
        post(new bytes(8));
        vm.prank(alice);
        post(states);

        uint64[] memory places = court.places(trialId);
        bytes memory same = abi.encodePacked(wrong[places[3]]);
        vm.prank(alice);
        refuses(ICourt.NotPlayer.selector);
        answer(states, 3, same);
        vm.startPrank(bob);
        refuses(ICourt.AnotherHash.selector);
        answer(same, 3, same);
        refuses(ICourt.NoSuchPlace.selector);
        answer(states, 25, same);
        refuses(ICourt.BadStates.selector);
        answer(states, 3, "");
        refuses(ICourt.SameState.selector);
        answer(states, 3, same);
        refuses(ICourt.StateNotNeeded.selector);
        answer(states, 24, same);
        vm.stopPrank();
    }

    function test_whoDoesNotAnswerIsLate() public {
        uint64[] memory wrong = _partial(300);
        _opened(wrong[COUNT], truth[COUNT]);
        eq(court.deadline(trialId), block.timestamp + CLOCK, "side 0 has its whole clock");
        pass(CLOCK);
        refuses(ICourt.NotTooLate.selector);
        court.timeout(trialTerms);
        bytes memory states = _states(wrong);
        vm.prank(alice);
        post(states); // in the last second
        pass(CLOCK + 1);
        vm.expectRevert(abi.encodeWithSelector(ICourt.TooLate.selector, trialId, 2));
        vm.prank(bob);
        answer(states, 3, states);
        court.timeout(trialTerms);
        eq(losers, 2, "side 1");
        yes(late, "by the clock");
        refuses(ICourt.NotTooLate.selector);
        court.timeout(trialTerms);
        eq(court.deadline(trialId), 0, "nobody owes anything");
    }

    function test_atTheStepBothOweAndTheSlowerFallsFirst() public {
        uint64[] memory wrong = _partial(300);
        _opened(wrong[COUNT], truth[COUNT]);
        pass(10); // side 0 owes
        _toStep(wrong, truth);
        eq(court.getTrial(trialId).clock0, CLOCK - 10, "charged");
        eq(court.getTrial(trialId).clock1, CLOCK, "not charged");
        pass(CLOCK - 9);
        court.timeout(trialTerms);
        eq(losers, 1, "side 0");
    }

    function test_bothSilentBothLose() public {
        open(disputeOfSum(1, 2));
        pass(CLOCK + 1);
        court.timeout(trialTerms);
        eq(losers, 3, "both");
        yes(late, "by the clock");
    }

    function test_movesOfOneStageAreRefusedInAnother() public {
        Dispute memory d = disputeOfSum(1, 2);
        open(d);
        Inputs memory inputs = inputsOfSum();
        bytes32[] memory none = new bytes32[](0);
        vm.expectRevert(
            abi.encodeWithSelector(ICourt.WrongStage.selector, trialId, Stage.Outputs, Stage.Walk)
        );
        reveal(0, none);
        refuses(ICourt.WrongStage.selector);
        descend(d, Descent(0, 0, none, 0, none));
        refuses(ICourt.WrongStage.selector);
        showLeaf(0, "");
        refuses(ICourt.WrongStage.selector);
        compare(d, "", "", inputs, noLog());
        refuses(ICourt.WrongStage.selector);
        post("");
        refuses(ICourt.WrongStage.selector);
        answer("", 0, "");
        refuses(ICourt.WrongStage.selector);
        judge(d, inputs, "", new Opening[](0));
        refuses(ICourt.NothingShown.selector);
        showOutput(d, 0, 0);
        refuses(ICourt.AnotherHash.selector);
        showOutput(d, 0, keccak256("another"));
        eq(court.places(trialId).length, 0, "no places yet");
        ++trialTerms.id; // of no trial
        refuses(ICourt.WrongStage.selector);
        showOutput(d, 0, 0);
    }
}
