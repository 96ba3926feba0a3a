// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Log} from "../Base.t.sol";
import {Statements} from "../support/Statements.sol";
import {Tree, Trees} from "../support/Trees.sol";
import {Tried} from "./Tried.sol";
import {Descent} from "contracts/commit/Descents.sol";
import {Entry} from "contracts/element/IRule.sol";
import {Dispute, ICourt, Stage, TrialPosition, TrialTerms} from "contracts/interfaces/ICourt.sol";
import {Inputs, Opening} from "contracts/interfaces/IExaminer.sol";

/// @notice Trial terms and statements are stored as hashes: moves show them, events contain them, nothing else fits.
contract ShownTrialTest is Tried {
    using Statements for TrialPosition;
    using Trees for Tree;

    uint64 private constant WRONG = 333; // in the leaf 2

    uint64[] private right = added();
    uint64[] private wrong = added();

    constructor() {
        wrong[WRONG] ^= 1;
    }

    function _disputeOfAdd() private view returns (Dispute memory) {
        return disputeOfAdd(treeOf(right).root(), treeOf(wrong).root());
    }

    function _way() private view returns (Descent memory) {
        (Tree memory tree0, Tree memory tree1) = (treeOf(right), treeOf(wrong));
        return Descent(2, tree0.levels[0][2], tree0.path(2), tree1.levels[0][2], tree1.path(2));
    }

    // ------------------------------------------------------------------ another dispute

    function test_everyMoveThatGoesByTheDisputeRefusesAnother() public {
        Dispute memory d = _disputeOfAdd();
        Dispute memory other = _disputeOfAdd();
        other.mode = 2;
        open(d);
        (bytes32 root0, bytes32 root1) = (treeOf(right).root(), treeOf(wrong).root());
        Descent memory way = _way();
        Inputs memory inputs = inputsOfAdd();
        (bytes32 have, bytes32 want) = (keccak256(abi.encode(other)), keccak256(abi.encode(d)));
        vm.expectRevert(abi.encodeWithSelector(ICourt.NotTheDispute.selector, have, want));
        showOutput(other, 0, root0);
        showOutput(d, 0, root0);
        showOutput(d, 1, root1);
        refuses(ICourt.NotTheDispute.selector);
        descend(other, way);
        descend(d, way);
        refuses(ICourt.NotTheDispute.selector);
        compare(other, leafOf(right, 2), leafOf(wrong, 2), inputs, noLog());
        compare(d, leafOf(right, 2), leafOf(wrong, 2), inputs, noLog());
        inStage(Stage.Step);
        refuses(ICourt.NotTheDispute.selector);
        judge(other, inputs, new bytes(8), new Opening[](0));
    }

    // ------------------------------------------------------------------ earlier statements

    function test_whatWasSaidBeforeIsRefusedInEveryMove() public {
        Dispute memory d = disputeOfSum(1, 2);
        open(d);
        TrialPosition memory stale = position;
        showOutput(d, 0, treeOf(single(1)).root());
        bytes32 root1 = treeOf(single(2)).root();
        bytes32 have = stale.hash();
        vm.expectRevert(abi.encodeWithSelector(ICourt.AnotherHash.selector, have, position.hash()));
        court.showOutputs(trialTerms, d, stale, Statements.only(1, root1));
        stale = position;
        showOutput(d, 1, root1);
        inStage(Stage.Leaf);
        Inputs memory inputs = inputsOfSum();
        _refusedOf(stale);
        court.showLeaf(trialTerms, stale, 0, leafOf(single(1), 0));
        _refusedOf(stale);
        court.compare(trialTerms, d, stale, leafOf(single(1), 0), leafOf(single(2), 0), inputs, noLog());
        stale = position;
        compare(d, leafOf(single(1), 0), leafOf(single(2), 0), inputs, noLog());
        inStage(Stage.Post);
        _rounds(stale);
        inStage(Stage.Step);
        stale = position;
        stale.values = [uint64(2), 1];
        _refusedOf(stale);
        court.judge(trialTerms, d, stale, inputs, new bytes(8), new Opening[](0));
    }

    /// @dev Side 0 posts states of zeros, side 1 answers at the first place.
    function _rounds(TrialPosition memory stale) private {
        while (court.getTrial(trialId).stage == Stage.Post) {
            bytes memory states = new bytes(8 * (court.places(trialId).length - 1));
            vm.prank(alice);
            _refusedOf(stale);
            court.post(trialTerms, stale, states);
            stale = position;
            vm.prank(alice);
            post(states);
            vm.prank(bob);
            _refusedOf(stale);
            court.answer(trialTerms, stale, states, 0, "12345678");
            stale = position;
            vm.prank(bob);
            answer(states, 0, "12345678");
        }
    }

    function _refusedOf(TrialPosition memory stale) private {
        vm.expectRevert(abi.encodeWithSelector(ICourt.AnotherHash.selector, stale.hash(), position.hash()));
    }

    function test_whatWasSaidBeforeIsRefusedOnTheWay() public {
        Dispute memory d = _disputeOfAdd();
        open(d);
        showOutput(d, 0, treeOf(right).root());
        TrialPosition memory stale = position;
        showOutput(d, 1, treeOf(wrong).root());
        bytes32[] memory children = treeOf(right).children(3, 0, 3);
        Descent memory way = _way();
        _refusedOf(stale);
        court.reveal(trialTerms, stale, 0, children);
        _refusedOf(stale);
        court.descend(trialTerms, d, stale, way);
        descend(d, way);
    }

    // ------------------------------------------------------------------ another trial

    function test_theTrialTermsOfAnEqualTrialMovesThatOneAlone() public {
        Dispute memory d = disputeOfSum(1, 2);
        open(d);
        (uint256 first, TrialTerms memory firstTerms) = (trialId, trialTerms);
        showOutput(d, 0, treeOf(single(1)).root());
        TrialPosition memory firstPosition = position;
        bytes32 before = keccak256(abi.encode(court.getTrial(first)));

        open(d); // the same dispute, players and client
        yes(trialId != first, "another id");
        bytes32 root1 = treeOf(single(2)).root();
        refuses(ICourt.AnotherHash.selector);
        court.showOutputs(trialTerms, d, firstPosition, Statements.only(1, root1)); // statements there are none here
        showOutput(d, 1, root1);
        eq(keccak256(abi.encode(court.getTrial(first))), before, "the first has not moved");
        court.showOutputs(firstTerms, d, firstPosition, Statements.only(1, root1));
        eq(uint256(court.getTrial(first).stage), uint256(Stage.Leaf), "now it has");
    }

    function test_aTrialTermsWithAnotherFieldIsOfNoTrial() public {
        Dispute memory d = disputeOfSum(1, 2);
        open(d);
        eq(court.trialOf(trialTerms), trialId, "id");
        TrialTerms[5] memory list;
        for (uint256 i = 0; i < 5; ++i) {
            list[i] = trialTerms;
        }
        list[0].client = alice;
        list[1].id += 1;
        list[2].players[0] = bob;
        list[3].players[1] = alice;
        list[4].dispute = keccak256("another");
        bytes32 root = treeOf(single(1)).root();
        pass(CLOCK + 1);
        for (uint256 i = 0; i < 5; ++i) {
            uint256 none = court.trialOf(list[i]);
            vm.expectRevert(
                abi.encodeWithSelector(ICourt.WrongStage.selector, none, Stage.None, Stage.Outputs)
            );
            court.showOutputs(list[i], d, position, Statements.only(0, root));
            refuses(ICourt.NotTooLate.selector);
            court.timeout(list[i]);
        }
        court.timeout(trialTerms);
        eq(losers, 3, "the trial itself");
    }

    // ------------------------------------------------------------------ events

    /// @dev Returns the statements that count after these events; `places` are those before the move.
    function _follow(
        TrialPosition memory now_,
        Log[] memory logs,
        uint64[] memory places,
        bytes memory states
    ) private view returns (TrialPosition memory) {
        for (uint256 i = 0; i < logs.length; ++i) {
            if (logs[i].emitter != address(court)) continue;
            (bytes32 topic, bytes memory data) = (logs[i].topics[0], logs[i].data);
            if (topic == ICourt.OutputShown.selector) {
                (uint8 side,, bytes32 root) = abi.decode(data, (uint8, uint8, bytes32));
                now_.nodes[side] = root;
            } else if (topic == ICourt.NodesDescended.selector) {
                (,, now_.nodes[0], now_.nodes[1]) = abi.decode(data, (uint8, uint64, bytes32, bytes32));
            } else if (topic == ICourt.ElementFound.selector) {
                (,, uint64[2] memory values,, bytes memory first) =
                    abi.decode(data, (uint64, Entry, uint64[2], uint64, bytes));
                now_ = Statements.found(values, first);
            } else if (topic == ICourt.StatesPosted.selector) {
                (,, bytes memory posted) = abi.decode(data, (uint64, uint64, bytes));
                now_.offer = keccak256(posted);
            } else if (topic == ICourt.StateAnswered.selector) {
                (, uint64 hi, bytes memory own) = abi.decode(data, (uint64, uint64, bytes));
                uint256 place = 0;
                while (places[place] != hi) ++place;
                now_ = now_.answered(states, 8, place, own);
            }
        }
        return now_;
    }

    function test_whatWasSaidIsWhatTheEventsTellAfterEveryMove() public {
        vm.recordLogs();
        Dispute memory d = _disputeOfAdd();
        open(d);
        TrialPosition memory now_;
        now_ = _told(now_, "open");
        showOutput(d, 1, treeOf(wrong).root());
        now_ = _told(now_, "the first output");
        showOutput(d, 0, treeOf(right).root());
        now_ = _told(now_, "the second output");
        reveal(0, treeOf(right).children(3, 0, 3));
        now_ = _told(now_, "reveal");
        descend(d, _way());
        now_ = _told(now_, "descend");
        showLeaf(0, leafOf(right, 2));
        now_ = _told(now_, "a leaf");
        compare(d, leafOf(right, 2), leafOf(wrong, 2), inputsOfAdd(), noLog());
        now_ = _told(now_, "compare");
        inStage(Stage.Step);
    }

    function test_ofAChainTooAtEveryPlace() public {
        for (uint256 place = 0; place < 25; place += 12) {
            Dispute memory d = disputeOfSum(1, 2);
            open(d);
            showOutput(d, 0, treeOf(single(1)).root());
            showOutput(d, 1, treeOf(single(2)).root());
            vm.recordLogs();
            compare(d, leafOf(single(1), 0), leafOf(single(2), 0), inputsOfSum(), noLog());
            TrialPosition memory now_;
            now_ = _told(now_, "compare");
            for (uint256 i = 0; court.getTrial(trialId).stage == Stage.Post; ++i) {
                now_ = _round(now_, i == 0 ? place : court.places(trialId).length - 1);
            }
        }
    }

    /// @dev Side 1 differs from this place on.
    function _round(TrialPosition memory now_, uint256 place) private returns (TrialPosition memory) {
        uint64[] memory places = court.places(trialId);
        bytes memory states = new bytes(8 * (places.length - 1));
        for (uint256 b = 0; b < states.length; ++b) {
            states[b] = bytes1(uint8(b));
        }
        vm.prank(alice);
        post(states);
        now_ = _told(now_, "post");
        vm.prank(bob);
        answer(states, place, place + 1 < places.length ? bytes("12345678") : bytes(""));
        now_ = _follow(now_, vm.getRecordedLogs(), places, states);
        eq(now_.hash(), court.getTrial(trialId).position, "answer");
        return now_;
    }

    function _told(TrialPosition memory now_, string memory move) private returns (TrialPosition memory) {
        now_ = _follow(now_, vm.getRecordedLogs(), new uint64[](0), "");
        eq(now_.hash(), court.getTrial(trialId).position, move);
        return now_;
    }
}
