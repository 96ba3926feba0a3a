// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Matches} from "../support/Matches.sol";
import {Step} from "../support/Positions.sol";
import {Fault, Kind, Run, Runs} from "../support/Runs.sol";
import {Tree, Trees} from "../support/Trees.sol";
import {Descents} from "contracts/commit/Descents.sol";
import {Merkle} from "contracts/commit/Merkle.sol";
import {Exhibit, IReferee, Match, Phase, Position, Reason} from "contracts/interfaces/IReferee.sol";

/// @notice Down the trees: every position is the first difference, and no other one is accepted.
contract WalkTest is Matches {
    using Trees for Tree;
    using Runs for Run;

    function test_publishedTreesLeadToTheDisputedRecord() public {
        (uint256 id,,) = atRecord(Fault(Kind.Output, 7, 3, 0, 1));
        Match memory m = referee.getMatch(id);
        eq(uint256(m.phase), uint256(Phase.Open), "phase");
        eq(m.start, 6, "start");
        eq(m.end, 7, "step");
        eq(m.index, 3, "node");
        eq(here(id).agreed, Runs.right().checkpoint[6], "agreed checkpoint");
    }

    function test_everyFaultIsFoundWhereItIs() public {
        for (uint64 t = 1; t <= Runs.STEPS; ++t) {
            uint32 node = uint32(t % Runs.NODES);
            (uint256 id,,) = atRecord(Fault(Kind.Output, t, node, 0, t));
            Match memory m = referee.getMatch(id);
            eq(m.end, t, "step");
            eq(m.index, node, "node");
            eq(here(id).agreed, Runs.right().checkpoint[t - 1], "agreed checkpoint");
        }
    }

    function test_withheldTreesAreRevealedAndWalkedByOnlookers() public {
        Run memory run0 = Runs.right();
        Run memory run1 = Runs.wrong(Fault(Kind.Output, 9, 4, 0, 1));
        uint256 id = open(run0, run1);
        bytes32[] memory nodes = childrenOf(id, run0);
        vm.prank(address(0xCAFE));
        reveal(id, 0, nodes);
        reveal(id, 1, run1);
        eq(referee.getMatch(id).posted, 3, "both have posted");
        descend(id, run0, run1);
        eq(referee.getMatch(id).posted, 0, "a new position");
        inPhase(id, Phase.Refine);
    }

    function test_aRevealIsBoundByItsHash() public {
        Run memory run0 = Runs.right();
        Run memory run1 = Runs.wrong(Fault(Kind.Output, 9, 4, 0, 1));
        uint256 id = open(run0, run1);
        bytes32[] memory nodes = childrenOf(id, run0);
        refuses(Descents.WrongNode.selector);
        reveal(id, 1, nodes);
        refuses(IReferee.BadSide.selector);
        reveal(id, 2, nodes);
        reveal(id, 0, nodes);
        refuses(IReferee.AlreadyPosted.selector);
        reveal(id, 0, nodes);
        bytes32[] memory fewer = new bytes32[](3);
        refuses(Merkle.WrongChildCount.selector);
        reveal(id, 1, fewer);
    }

    function test_aDescentMustBeTheFirstDifference() public {
        Run memory run0 = Runs.right();
        // From step 3 on everything differs: at stride 4 the leaves 0, 1 and 2.
        Run memory run1 = Runs.wrong(Fault(Kind.Output, 3, 0, 0, 1));
        uint256 id = open(run0, run1);
        Tree memory tree0 = run0.runTree(4, 0, 10);
        Tree memory tree1 = run1.runTree(4, 0, 10);
        Step memory d = descent(id, run0, run1, 2);
        d.way.child = 1;
        (d.way.node0, d.way.node1) = (tree0.levels[0][1], tree1.levels[0][1]);
        (d.way.path0, d.way.path1) = (tree0.path(1), tree1.path(1));
        vm.expectRevert(abi.encodeWithSelector(Descents.EarlierDifference.selector, 0));
        send(id, d);
    }

    function test_aDescentMustBeADifferenceAtAll() public {
        Run memory run0 = Runs.right();
        Run memory run1 = Runs.wrong(Fault(Kind.Output, 9, 0, 0, 1));
        uint256 id = open(run0, run1);
        Tree memory tree0 = run0.runTree(4, 0, 10);
        Tree memory tree1 = run1.runTree(4, 0, 10);
        Step memory d = descent(id, run0, run1, 2);
        d.way.child = 0;
        (d.way.node0, d.way.node1) = (tree0.levels[0][0], tree1.levels[0][0]);
        (d.way.path0, d.way.path1) = (tree0.path(0), tree1.path(0));
        refuses(Descents.NoDifference.selector);
        send(id, d);
    }

    function test_aDescentMustFitTheTree() public {
        Run memory run0 = Runs.right();
        Run memory run1 = Runs.wrong(Fault(Kind.Output, 9, 0, 0, 1));
        uint256 id = open(run0, run1);

        Step memory d = descent(id, run0, run1, 1);
        vm.expectRevert(abi.encodeWithSelector(Descents.BadDescent.selector, 1, 2));
        send(id, d);

        d = descent(id, run0, run1, 2);
        d.way.path1 = new bytes32[](3);
        vm.expectRevert(abi.encodeWithSelector(Descents.PathsDiffer.selector, 2, 3));
        send(id, d);

        d.way.path0 = new bytes32[](3);
        vm.expectRevert(abi.encodeWithSelector(Descents.BadDescent.selector, 3, 2));
        send(id, d);

        d = descent(id, run0, run1, 2);
        d.way.child += 4;
        refuses(Descents.ChildOutOfRange.selector);
        send(id, d);

        d = descent(id, run0, run1, 2);
        d.way.path1[0] = bytes32(uint256(1));
        refuses(Descents.WrongNode.selector);
        send(id, d);
    }

    function test_thePreviousCheckpointIsProvenUnderEitherRootAndOnlyWhereItIsNeeded() public {
        Run memory run0 = Runs.right();
        Run memory run1 = Runs.wrong(Fault(Kind.Output, 9, 0, 0, 1));
        uint256 id = open(run0, run1);
        Step memory d = descent(id, run0, run1, 2);
        d.previous = bytes32(uint256(1));
        refuses(Merkle.PathMismatch.selector);
        send(id, d);

        d = descent(id, run0, run1, 2);
        d.previousPath = new bytes32[](0);
        refuses(Merkle.WrongPathLength.selector);
        send(id, d);

        // Side 1 need not know side 0's tree to the right of the difference.
        d.previousPath = run1.runTree(4, 0, 10).path(d.way.child - 1);
        send(id, d);
        eq(here(id).agreed, run0.checkpoint[8], "agreed checkpoint");

        refine(id, 0, run0);
        refine(id, 1, run1);
        d = descent(id, run0, run1, 1);
        eq(d.way.child, 0, "the first step of the interval differs");
        d.previous = run0.checkpoint[8];
        refuses(IReferee.PreviousNotNeeded.selector);
        send(id, d);
    }

    function test_refineIsForTheSpokesmanAlone() public {
        Run memory run0 = Runs.right();
        Run memory run1 = Runs.wrong(Fault(Kind.Output, 9, 0, 0, 1));
        uint256 id = open(run0, run1);
        descend(id, run0, run1);
        (bytes32 root, bytes32[] memory path) = refinement(id, run0);

        vm.expectRevert(abi.encodeWithSelector(IReferee.NotSpokesman.selector, bob, alice));
        refine(id, 0, root, path, bob);
        refuses(Merkle.PathMismatch.selector);
        refine(id, 1, root, path, bob);
        refine(id, 0, root, path, alice);
        refuses(IReferee.AlreadyPosted.selector);
        refine(id, 0, root, path, alice);
    }

    function test_aRefinementMustEndInWhatItRefines() public {
        Run memory run0 = Runs.right();
        Run memory run1 = Runs.wrong(Fault(Kind.Output, 9, 0, 0, 1));
        uint256 id = open(run0, run1);
        descend(id, run0, run1);
        (bytes32 root, bytes32[] memory path) = refinement(id, run1);
        // Bob posts a tree that ends in another checkpoint than his claim does.
        path[0] = bytes32(uint256(1));
        refuses(Merkle.PathMismatch.selector);
        refine(id, 1, root, path, bob);
    }

    function test_paddingBeyondTheLastCheckpointLoses() public {
        Run memory run0 = Runs.right();
        Run memory run1 = Runs.wrong(Fault(Kind.RunPadding, 0, 0, 0, 1));
        uint256 id = open(run0, run1);
        descend(id, run0, run1);
        decided(id, 2, Reason.Padding);
    }

    function test_paddingBeyondTheLastNodeLoses() public {
        Run memory run0 = Runs.wrong(Fault(Kind.StepPadding, 8, 0, 0, 1));
        Run memory run1 = Runs.right();
        uint256 id = open(run0, run1);
        toRecord(id, run0, run1);
        decided(id, 1, Reason.Padding);
    }

    function test_twoPaddingsBothLose() public {
        Run memory run0 = Runs.wrong(Fault(Kind.RunPadding, 0, 0, 0, 1));
        Run memory run1 = Runs.wrong(Fault(Kind.RunPadding, 0, 0, 0, 2));
        uint256 id = open(run0, run1);
        descend(id, run0, run1);
        decided(id, 3, Reason.Padding);
    }

    function test_treesOfOneLeafAreLeftAtOnce() public {
        // One step of one node: the run root is the checkpoint, which is the record.
        _served.steps = 1;
        _served.nodeCount = 1;
        uint256 id = open(keccak256("a"), keccak256("b"));
        Match memory m = referee.getMatch(id);
        eq(uint256(m.phase), uint256(Phase.Open), "phase");
        eq(m.end, 1, "step");
        eq(m.level, 3, "level");

        // Three steps in one checkpoint: the interval is refined at once.
        _served.steps = 3;
        id = open(keccak256("a"), keccak256("b"));
        m = referee.getMatch(id);
        eq(uint256(m.phase), uint256(Phase.Refine), "phase");
        eq(m.start, 0, "start");
        eq(m.end, 3, "end");
        eq(here(id).agreed, _served.initialRoot, "agreed checkpoint");
    }

    function test_aMatchNeedsTwoRootsAndAKnownProgram() public {
        refuses(IReferee.SameRoots.selector);
        this.openOutside(bytes32(uint256(1)), bytes32(uint256(1)));
        _served.mode = 4;
        refuses(IReferee.UnknownMode.selector);
        this.openOutside(bytes32(uint256(1)), bytes32(uint256(2)));
        _served.opsetVersion = 2;
        refuses(IReferee.UnknownOpset.selector);
        this.openOutside(bytes32(uint256(1)), bytes32(uint256(2)));
    }

    function openOutside(bytes32 root0, bytes32 root1) external {
        open(root0, root1);
    }

    function test_movesOfOnePhaseAreRefusedInAnother() public {
        (uint256 id, Run memory run0, Run memory run1) = atRecord(Fault(Kind.Output, 7, 3, 0, 1));
        Step memory d;
        bytes32[] memory none = new bytes32[](1);
        vm.expectRevert(abi.encodeWithSelector(IReferee.WrongPhase.selector, id, Phase.Open, Phase.Walk));
        send(id, d);
        refuses(IReferee.WrongPhase.selector);
        reveal(id, 0, none);
        refuses(IReferee.WrongPhase.selector);
        refine(id, 0, 0, none, alice);
        Exhibit memory e = exhibit(id, run0, run1);
        submit(id, e);
        refuses(IReferee.WrongPhase.selector);
        submit(id, e);
        // A match that does not exist is in no phase.
        refuses(IReferee.WrongPhase.selector);
        reveal(id + 1, 0, none);
        refuses(IReferee.NotLate.selector);
        referee.timeout(id + 1);
    }

    function test_shortCalldataIsRefusedAndExtraCalldataIsIgnored() public {
        Run memory run0 = Runs.right();
        Run memory run1 = Runs.wrong(Fault(Kind.Output, 9, 4, 0, 1));
        uint256 id = open(run0, run1);
        bytes memory whole = abi.encodeCall(referee.reveal, (id, here(id), 0, childrenOf(id, run0)));

        for (uint256 cut = 1; cut < whole.length - 4; cut += 31) {
            bytes memory short = new bytes(whole.length - cut);
            for (uint256 i = 0; i < short.length; ++i) {
                short[i] = whole[i];
            }
            (bool taken,) = address(referee).call(short);
            yes(!taken, "short calldata is refused");
        }
        (bool ok,) = address(referee).call(abi.encodePacked(whole, "surplus"));
        yes(ok, "what follows the arguments is not read");
        eq(referee.getMatch(id).posted, 1, "posted");
    }

    function test_aBatchGoesFromRootToRecordInOneTransactionForEachRefinement() public {
        Run memory run0 = Runs.right();
        Run memory run1 = Runs.wrong(Fault(Kind.Output, 9, 4, 0, 1));
        uint256 id = open(run0, run1);
        Step memory d = descent(id, run0, run1, 2);
        bytes[] memory batch = new bytes[](2);
        batch[0] = abi.encodeCall(
            referee.descend, (id, matchTerms(id), here(id), d.way, d.previous, d.previousPath)
        );
        Position memory to = here(id);
        (to.node, to.agreed) = ([d.way.node0, d.way.node1], d.previous);
        // The sender of a batch is the sender of its moves.
        (bytes32 root, bytes32[] memory path) =
            (run1.runTree(1, 8, 10).root(), run1.runTree(1, 8, 10).path(1));
        batch[1] = abi.encodeCall(referee.refine, (id, matchTerms(id), to, 1, root, path));
        vm.prank(bob);
        referee.multicall(batch);
        eq(referee.getMatch(id).posted, 2, "side 1 has refined");

        vm.deal(address(this), 1 ether);
        (bool ok,) = address(referee).call{value: 1}(abi.encodeCall(referee.multicall, (batch)));
        yes(!ok, "a batch carries no ether");
    }

    function test_aMoveOfOneMatchFitsNoOther() public {
        // The same roots and players, with another number: the id differs.
        Run memory run0 = Runs.right();
        Run memory run1 = Runs.wrong(Fault(Kind.Output, 9, 4, 0, 1));
        uint256 first = open(run0, run1);
        uint256 second = open(run0, run1);
        yes(first != second, "ids differ");
        // On another branch of the chain the second could have been the first, with other roots: ids bind them.
        uint256 third = open(run1, run0);
        yes(third != first && third != second, "ids bind the sides");
    }
}
