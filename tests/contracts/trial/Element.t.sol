// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Tree, Trees} from "../support/Trees.sol";
import {Tried} from "./Tried.sol";
import {Descent, Descents} from "contracts/commit/Descents.sol";
import {Types} from "contracts/commit/Types.sol";
import {Dispute, ICourt, Stage, TrialTerms} from "contracts/interfaces/ICourt.sol";
import {IExaminer, Inputs, Opening} from "contracts/interfaces/IExaminer.sol";

/// @notice From two outputs to the element in which they differ, and the step that computes it.
contract ElementTest is Tried {
    using Trees for Tree;

    uint64 private constant WRONG = 333; // in the leaf 2

    uint64[] private right = added();
    uint64[] private wrong = added();

    constructor() {
        wrong[WRONG] ^= 1;
    }

    /// @dev Opens a trial in which the side `liar` is wrong, with both data roots shown.
    function _walking(uint8 liar) private returns (Dispute memory d, Tree memory tree0, Tree memory tree1) {
        (tree0, tree1) = (treeOf(liar == 0 ? wrong : right), treeOf(liar == 1 ? wrong : right));
        d = disputeOfAdd(tree0.root(), tree1.root());
        open(d);
        showOutput(d, 1, tree1.root());
        inStage(Stage.Outputs);
        showOutput(d, 0, tree0.root());
        inStage(Stage.Walk);
    }

    function _atLeaf(uint8 liar) private returns (Dispute memory d) {
        Tree memory tree0;
        Tree memory tree1;
        (d, tree0, tree1) = _walking(liar);
        descend(d, Descent(2, tree0.levels[0][2], tree0.path(2), tree1.levels[0][2], tree1.path(2)));
        inStage(Stage.Leaf);
    }

    function test_bothOutputsAreShownAtOnce() public {
        (bytes32 root0, bytes32 root1) = (treeOf(wrong).root(), treeOf(right).root());
        Dispute memory d = disputeOfAdd(root0, root1);
        open(d);
        refuses(ICourt.AnotherHash.selector);
        court.showOutputs(trialTerms, d, position, [root1, root0]);
        refuses(ICourt.AnotherHash.selector);
        court.showOutputs(trialTerms, d, position, [root0, root0]);
        eq(court.getTrial(trialId).posted, 0, "nothing of it counts");
        court.showOutputs(trialTerms, d, position, [root0, root1]);
        position.nodes = [root0, root1];
        inStage(Stage.Walk);
        bytes32[] memory children = treeOf(right).levels[0];
        refuses(ICourt.NoSuchSide.selector);
        reveal(2, children);
        eq(court.getTrial(trialId).position, keccak256(abi.encode(position)), "both are said");
    }

    function _leaf(uint8 side, uint8 liar) private view returns (bytes memory) {
        return leafOf(side == liar ? wrong : right, 2);
    }

    function _openings() private pure returns (Opening[] memory openings) {
        openings = new Opening[](2);
        (openings[0], openings[1]) = (opening(0, a(), WRONG), opening(1, b(), WRONG));
    }

    function _judge(Dispute memory d, uint8 liar) private {
        inStage(Stage.Step);
        eq(court.getTrial(trialId).element, WRONG, "the first element that differs");
        judge(d, inputsOfAdd(), new bytes(8), _openings());
        decided(uint8(1 << liar));
    }

    function test_aWrongElementOfAPublishedOutputLoses() public {
        for (uint8 liar = 0; liar < 2; ++liar) {
            Dispute memory d = _atLeaf(liar);
            compare(d, _leaf(0, liar), _leaf(1, liar), inputsOfAdd(), noLog());
            _judge(d, liar);
        }
    }

    function test_anOutputIsWalkedAndShownPieceByPiece() public {
        (Dispute memory d, Tree memory tree0, Tree memory tree1) = _walking(1);
        reveal(0, tree0.children(3, 0, 3));
        bytes32[] memory nodes = tree1.children(3, 0, 3);
        vm.expectRevert(abi.encodeWithSelector(ICourt.AlreadyShown.selector, trialId, 0));
        reveal(0, nodes);
        refuses(Descents.WrongNode.selector);
        reveal(1, tree0.levels[0]);
        reveal(1, nodes);
        descend(d, Descent(2, tree0.levels[0][2], tree0.path(2), tree1.levels[0][2], tree1.path(2)));
        showLeaf(0, _leaf(0, 1));
        refuses(ICourt.AnotherHash.selector);
        showLeaf(1, leafOf(right, 2));
        showLeaf(1, _leaf(1, 1));
        compare(d, _leaf(0, 1), _leaf(1, 1), inputsOfAdd(), noLog());
        _judge(d, 1);
    }

    function test_bothCanBeWrong() public {
        uint64[] memory other = added();
        other[WRONG] ^= 2;
        (Tree memory tree0, Tree memory tree1) = (treeOf(other), treeOf(wrong));
        Dispute memory d = disputeOfAdd(tree0.root(), tree1.root());
        open(d);
        showOutput(d, 0, tree0.root());
        showOutput(d, 1, tree1.root());
        descend(d, Descent(2, tree0.levels[0][2], tree0.path(2), tree1.levels[0][2], tree1.path(2)));
        compare(d, leafOf(other, 2), leafOf(wrong, 2), inputsOfAdd(), noLog());
        judge(d, inputsOfAdd(), new bytes(8), _openings());
        decided(3);
    }

    function test_aLeafOfAnotherLengthLoses() public {
        Tree memory tree0 = treeOf(right);
        bytes memory longer = abi.encodePacked(leafOf(right, 4), uint8(0));
        bytes32 leaf = sha256(abi.encodePacked(uint8(0x01), longer));
        bytes32[] memory path = tree0.path(4);
        bytes32 root = Trees.climb(0x10, leaf, 4, path);
        Dispute memory d = disputeOfAdd(tree0.root(), root);
        open(d);
        showOutput(d, 0, tree0.root());
        showOutput(d, 1, root);
        descend(d, Descent(4, tree0.levels[0][4], path, leaf, path));
        compare(d, leafOf(right, 4), longer, inputsOfAdd(), noLog());
        decided(2);
    }

    function test_ofAnOutputThatIsNoFloatNoLogIsShown() public {
        Tree memory tree0 = treeOf(wrong);
        Tree memory tree1 = treeOf(right);
        Dispute memory d = disputeOfAdd(tree0.root(), tree1.root());
        d.records[0].log = keccak256("a log that nobody has");
        d.records[1].log = d.records[0].log;
        open(d);
        showOutput(d, 0, tree0.root());
        showOutput(d, 1, tree1.root());
        descend(d, Descent(2, tree0.levels[0][2], tree0.path(2), tree1.levels[0][2], tree1.path(2)));
        compare(d, _leaf(0, 0), _leaf(1, 0), inputsOfAdd(), noLog());
        inStage(Stage.Step);
        eq(court.getTrial(trialId).kind, 1, "nothing is said of the element");
        judge(d, inputsOfAdd(), new bytes(8), _openings());
        decided(1);
    }

    function test_aLeafBeyondTheLastLoses() public {
        Tree memory tree0 = treeOf(right);
        bytes32[] memory path = tree0.path(5);
        bytes32 root = Trees.climb(0x10, keccak256("more"), 5, path);
        Dispute memory d = disputeOfAdd(root, tree0.root());
        open(d);
        showOutput(d, 0, root);
        showOutput(d, 1, tree0.root());
        descend(d, Descent(5, keccak256("more"), path, tree0.levels[0][5], path));
        decided(1);
    }

    // ------------------------------------------------------------------ refusals

    function test_aDescentIsTheFirstDifferenceOfBothTrees() public {
        (Dispute memory d, Tree memory tree0, Tree memory tree1) = _walking(1);
        bytes32[] memory path0 = tree0.path(2);
        bytes32[] memory path1 = tree1.path(2);
        (bytes32 leaf0, bytes32 leaf1) = (tree0.levels[0][2], tree1.levels[0][2]);
        refuses(Descents.PathsDiffer.selector);
        descend(d, Descent(2, leaf0, path0, leaf1, new bytes32[](2)));
        refuses(Descents.BadDescent.selector);
        descend(d, Descent(0, leaf0, new bytes32[](2), leaf1, new bytes32[](2)));
        refuses(Descents.BadDescent.selector);
        descend(d, Descent(0, leaf0, new bytes32[](4), leaf1, new bytes32[](4)));
        refuses(Descents.ChildOutOfRange.selector);
        descend(d, Descent(8, leaf0, path0, leaf1, path1));
        refuses(Descents.NoDifference.selector);
        descend(d, Descent(2, leaf0, path0, leaf0, path0));
        refuses(Descents.WrongNode.selector);
        descend(d, Descent(3, leaf0, path0, leaf1, path1));
        Dispute memory other = disputeOfAdd(tree1.root(), tree0.root());
        refuses(ICourt.NotTheDispute.selector);
        descend(other, Descent(2, leaf0, path0, leaf1, path1));

        // A second difference, further to the right.
        uint64[] memory twice = added();
        (twice[WRONG], twice[599]) = (1, 1);
        tree1 = treeOf(twice);
        d = disputeOfAdd(tree0.root(), tree1.root());
        open(d);
        showOutput(d, 0, tree0.root());
        showOutput(d, 1, tree1.root());
        path0 = tree0.path(4);
        path1 = tree1.path(4);
        (leaf0, leaf1) = (tree0.levels[0][4], tree1.levels[0][4]);
        refuses(Descents.EarlierDifference.selector);
        descend(d, Descent(4, leaf0, path0, leaf1, path1));
    }

    function test_whatIsShownIsWhatIsCommittedTo() public {
        Dispute memory d = _atLeaf(1);
        (bytes memory leaf0, bytes memory leaf1) = (_leaf(0, 1), _leaf(1, 1));
        Inputs memory inputs = inputsOfAdd();
        refuses(ICourt.LeafTooLong.selector);
        showLeaf(0, new bytes(1025));
        refuses(ICourt.AnotherHash.selector);
        compare(d, leaf1, leaf1, inputs, noLog());
        inputs.roots = new bytes32[](1);
        refuses(IExaminer.WrongInputCount.selector);
        compare(d, leaf0, leaf1, inputs, noLog());
        inputs = inputsOfAdd();
        inputs.roots[1] = keccak256("another");
        refuses(IExaminer.AnotherInput.selector);
        compare(d, leaf0, leaf1, inputs, noLog());
        inputs = inputsOfAdd();
        inputs.types = abi.encodePacked(inputs.types, hex"0200");
        vm.expectRevert(abi.encodeWithSelector(IExaminer.TypesFollow.selector, 22, 20));
        compare(d, leaf0, leaf1, inputs, noLog());
        inputs.types = abi.encodePacked(typeOf(a()), hex"0201", uint56(2));
        vm.expectRevert(abi.encodeWithSelector(Types.TypesEnd.selector, 19, 20));
        compare(d, leaf0, leaf1, inputs, noLog());
        inputs.types = abi.encodePacked(typeOf(a()), hex"02");
        vm.expectRevert(abi.encodeWithSelector(Types.TypesEnd.selector, 11, 12));
        compare(d, leaf0, leaf1, inputs, noLog());
        inputs = inputsOfAdd();
        compare(d, leaf0, leaf1, inputs, noLog());

        Opening[] memory openings = _openings();
        refuses(ICourt.AnotherHash.selector);
        judge(d, inputs, new bytes(7), openings);
        openings[1].input = 2;
        refuses(IExaminer.OutsideTensor.selector);
        judge(d, inputs, new bytes(8), openings);
        openings = _openings();
        openings[1].element = 600;
        refuses(IExaminer.OutsideTensor.selector);
        judge(d, inputs, new bytes(8), openings);
        openings = _openings();
        openings[1].leaf[0] ^= 0x01;
        vm.expectRevert();
        judge(d, inputs, new bytes(8), openings);
        _judge(d, 1);
    }

    function test_onlyRecordsThatDifferInOutputsAloneAreTried() public {
        (bytes32 root0, bytes32 root1) = (treeOf(right).root(), treeOf(wrong).root());
        Dispute memory d = disputeOfAdd(root0, root0);
        _openRefused(d, IExaminer.OutputsEqual.selector);
        d = disputeOfAdd(root0, root1);
        d.records[1].inputs[0] = keccak256("another");
        _openRefused(d, IExaminer.RecordsDiffer.selector);
        d = disputeOfAdd(root0, root1);
        d.records[1].log = keccak256("another");
        _openRefused(d, IExaminer.RecordsDiffer.selector);
        d = disputeOfAdd(root0, root1);
        d.records[0].structure = keccak256("another");
        _openRefused(d, IExaminer.RecordsDiffer.selector);
        d = disputeOfAdd(root0, root1);
        d.records[1].outputs = new bytes32[](2);
        _openRefused(d, IExaminer.RecordsDiffer.selector);
        d = disputeOfAdd(root0, root1);
        court.open(77, [alice, bob], CLOCK, d);
        uint256 id = court.trialOf(TrialTerms(address(this), 77, [alice, bob], keccak256(abi.encode(d))));
        vm.expectRevert(abi.encodeWithSelector(ICourt.AlreadyOpen.selector, id));
        court.open(77, [alice, bob], CLOCK, d);
    }

    function _openRefused(Dispute memory d, bytes4 selector) private {
        refuses(selector);
        court.open(1, [alice, bob], CLOCK, d);
    }
}
