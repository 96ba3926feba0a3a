// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Matches} from "../support/Matches.sol";
import {Step} from "../support/Positions.sol";
import {Fault, Kind, Run, Runs} from "../support/Runs.sol";
import {Tree, Trees} from "../support/Trees.sol";
import {Descent, Descents} from "contracts/commit/Descents.sol";
import {Merkle} from "contracts/commit/Merkle.sol";
import {Structures} from "contracts/commit/Structures.sol";
import {Hearing} from "contracts/interfaces/IPanel.sol";
import {
    Evidence,
    Exhibit,
    IReferee,
    LogProof,
    Match,
    Phase,
    Reason,
    Record
} from "contracts/interfaces/IReferee.sol";

/// @notice Attacks at the disputed node, and the true outcome of each.
contract JudgeTest is Matches {
    using Trees for Tree;
    using Runs for Run;

    // ------------------------------------------------------------------ records

    function test_aRecordIsBoundByItsHash() public {
        (uint256 id, Run memory run0, Run memory run1) = atRecord(Fault(Kind.Output, 7, 3, 0, 1));
        Record memory record = recordOf(id, run0);
        refuses(Descents.WrongNode.selector);
        openRecord(id, 1, record);
        vm.prank(address(0xCAFE));
        openRecord(id, 0, record);
        refuses(IReferee.AlreadyPosted.selector);
        openRecord(id, 0, record);
        openRecord(id, 1, recordOf(id, run1));
        eq(referee.getMatch(id).posted, 3, "posted");
    }

    // ------------------------------------------------------------------ 1: structure

    function test_anotherStructureLoses() public {
        _structureLoses(Kind.Structure);
    }

    function test_aLogInAModeWithoutRoundingLoses() public {
        _structureLoses(Kind.Log);
    }

    function test_anExtraOutputLoses() public {
        _structureLoses(Kind.ExtraOutput);
    }

    function _structureLoses(Kind kind) private {
        (uint256 id, Run memory run0, Run memory run1) = atRecord(Fault(kind, 8, 3, 0, 1));
        Exhibit memory e = exhibit(id, run0, run1);
        Evidence memory evidence;
        vm.expectRevert(abi.encodeWithSelector(IReferee.Malformed.selector, 2));
        submit(id, e);
        vm.expectRevert(abi.encodeWithSelector(IReferee.Malformed.selector, 2));
        judgeInput(id, e, evidence);
        judgeStructure(id, e);
        decided(id, 2, Reason.Structure);
    }

    function test_twoWrongStructuresBothLose() public {
        Run memory run0 = Runs.wrong(Fault(Kind.Structure, 8, 3, 0, 1));
        Run memory run1 = Runs.wrong(Fault(Kind.Structure, 8, 3, 0, 2));
        uint256 id = open(run0, run1);
        toRecord(id, run0, run1);
        judgeStructure(id, exhibit(id, run0, run1));
        decided(id, 3, Reason.Structure);
    }

    function test_wellFormedRecordsCannotLoseByStructure() public {
        (uint256 id, Run memory run0, Run memory run1) = atRecord(Fault(Kind.Output, 7, 3, 0, 1));
        Exhibit memory e = exhibit(id, run0, run1);
        refuses(IReferee.WellFormed.selector);
        judgeStructure(id, e);
    }

    function test_theStructureMustBeTheProgramsForThisNode() public {
        (uint256 id, Run memory run0, Run memory run1) = atRecord(Fault(Kind.Output, 7, 3, 0, 1));
        Exhibit memory e = exhibit(id, run0, run1);
        e.structure = Runs.structure(2);
        refuses(Merkle.PathMismatch.selector);
        judgeStructure(id, e);
        // The record's own path does not help: the path is bound to the index.
        e.structurePath = Runs.structureTree().path(2);
        refuses(Merkle.PathMismatch.selector);
        judgeStructure(id, e);
        e.structurePath = new bytes32[](0);
        refuses(Merkle.WrongPathLength.selector);
        judgeStructure(id, e);
    }

    function test_theRecordsMustBeTheSides() public {
        (uint256 id, Run memory run0, Run memory run1) = atRecord(Fault(Kind.Output, 7, 3, 0, 1));
        Exhibit memory e = exhibit(id, run1, run0);
        refuses(Descents.WrongNode.selector);
        judgeStructure(id, e);
    }

    function test_aTruncatedStructureInAProgramIsRefused() public {
        // A client commits to a structure that ends before its operands: no move reads past its end.
        bytes memory cut = hex"00040201010000";
        _served.structureRoot = sha256(abi.encodePacked(uint8(0x03), cut));
        _served.nodeCount = 1;
        _served.steps = 1;
        Run memory run = Runs.right();
        Exhibit memory e;
        (e.record0, e.record1) = (run.records[1][0], run.records[2][0]);
        e.structure = cut;
        uint256 id = open(Runs.recordHash(e.record0), Runs.recordHash(e.record1));
        vm.expectRevert(abi.encodeWithSelector(Structures.StructureTruncated.selector, 7, 16));
        judgeStructure(id, e);
        vm.expectRevert(abi.encodeWithSelector(Structures.StructureTruncated.selector, 7, 16));
        submit(id, e);
    }

    // ------------------------------------------------------------------ 2: inputs

    function test_aWrongInitialStateLoses() public {
        (uint256 id, Run memory run0, Run memory run1) = atRecord(Fault(Kind.Input, 1, 0, 0, 1));
        Evidence memory evidence;
        evidence.tensor = Runs.initialTree().levels[0][0];
        evidence.sourcePath = Runs.initialTree().path(0);
        judgeInput(id, exhibit(id, run0, run1), evidence);
        decided(id, 2, Reason.InputCheckpoint);
    }

    function test_aWrongStateFromTheCheckpointBeforeLoses() public {
        (uint256 id, Run memory run0, Run memory run1) = atRecord(Fault(Kind.Input, 9, 3, 0, 1));
        Evidence memory evidence = _fromSlot(run0, 9, 1, 4);
        judgeInput(id, exhibit(id, run0, run1), evidence);
        decided(id, 2, Reason.InputCheckpoint);
    }

    function test_theSlotTableSaysWhichNodeMadeTheState() public {
        (uint256 id, Run memory run0, Run memory run1) = atRecord(Fault(Kind.Input, 9, 3, 0, 1));
        Exhibit memory e = exhibit(id, run0, run1);
        Evidence memory evidence = _fromSlot(run0, 9, 1, 4);
        evidence.slotNode = 3;
        refuses(Merkle.PathMismatch.selector);
        judgeInput(id, e, evidence);
        // The right row, but with a record of the disputed step instead of the agreed step before.
        evidence = _fromSlot(run1, 10, 1, 4);
        refuses(Merkle.PathMismatch.selector);
        judgeInput(id, e, evidence);
    }

    function test_aWrongOutputOfAnEarlierNodeLosesUnderEitherRoot() public {
        for (uint256 side = 0; side < 2; ++side) {
            (uint256 id, Run memory run0, Run memory run1) = atRecord(Fault(Kind.Input, 6, 3, 1, 1));
            Evidence memory evidence = _fromNode(side == 0 ? run0 : run1, 6, 2, 1);
            judgeInput(id, exhibit(id, run0, run1), evidence);
            decided(id, 2, Reason.InputNode);
        }
    }

    function test_aSourceMustBeTheNodeThatTheStructureNames() public {
        (uint256 id, Run memory run0, Run memory run1) = atRecord(Fault(Kind.Input, 6, 3, 1, 1));
        Exhibit memory e = exhibit(id, run0, run1);
        Evidence memory evidence = _fromNode(run0, 6, 1, 1);
        refuses(Merkle.PathMismatch.selector);
        judgeInput(id, e, evidence);
        evidence = _fromNode(run0, 6, 2, 1);
        evidence.source.outputs[1] = bytes32(uint256(1));
        refuses(Merkle.PathMismatch.selector);
        judgeInput(id, e, evidence);
    }

    function test_aWrongConstantLoses() public {
        (uint256 id, Run memory run0, Run memory run1) = atRecord(Fault(Kind.Input, 6, 0, 1, 1));
        Evidence memory evidence;
        evidence.input = 1;
        evidence.tensor = Runs.constantTree().levels[0][1];
        evidence.sourcePath = Runs.constantTree().path(1);
        judgeInput(id, exhibit(id, run0, run1), evidence);
        decided(id, 2, Reason.InputConstant);
    }

    function test_aWrongStepNumberLoses() public {
        (uint256 id, Run memory run0, Run memory run1) = atRecord(Fault(Kind.Input, 6, 1, 0, 1));
        Evidence memory evidence;
        judgeInput(id, exhibit(id, run0, run1), evidence);
        decided(id, 2, Reason.InputStep);
    }

    function test_twoWrongInputsBothLose() public {
        Run memory run0 = Runs.wrong(Fault(Kind.Input, 6, 1, 0, 1));
        Run memory run1 = Runs.wrong(Fault(Kind.Input, 6, 1, 0, 2));
        uint256 id = open(run0, run1);
        toRecord(id, run0, run1);
        Evidence memory evidence;
        judgeInput(id, exhibit(id, run0, run1), evidence);
        decided(id, 3, Reason.InputStep);
    }

    function test_anEqualInputAndOneThatIsNotThereCannotBeJudged() public {
        (uint256 id, Run memory run0, Run memory run1) = atRecord(Fault(Kind.Input, 6, 3, 1, 1));
        Exhibit memory e = exhibit(id, run0, run1);
        Evidence memory evidence;
        vm.expectRevert(abi.encodeWithSelector(IReferee.InputsEqual.selector, 0));
        judgeInput(id, e, evidence);
        evidence.input = 2;
        vm.expectRevert(abi.encodeWithSelector(Structures.NoSuchInput.selector, 2, 2));
        judgeInput(id, e, evidence);
    }

    function test_aSourceWithoutThatOutputMakesBothWrong() public {
        // Both claim a step whose node 0 has no outputs; node 1 reads one. There is no true value.
        (uint256 id, Exhibit memory e, Evidence memory evidence) = _twoNodes(hex"00020101000000000000");
        judgeInput(id, e, evidence);
        decided(id, 3, Reason.InputNode);
    }

    function test_anInputFromALaterNodeIsNotAgreed() public {
        (uint256 id, Exhibit memory e, Evidence memory evidence) = _twoNodes(hex"00020101000000000100");
        vm.expectRevert(abi.encodeWithSelector(IReferee.ForwardReference.selector, 1, 1));
        judgeInput(id, e, evidence);
    }

    function test_anUnknownKindOfOperandIsRefused() public {
        (uint256 id, Exhibit memory e, Evidence memory evidence) = _twoNodes(hex"00020101040000000000");
        vm.expectRevert(abi.encodeWithSelector(IReferee.UnknownOperand.selector, 4));
        judgeInput(id, e, evidence);
    }

    /// @dev Returns a program of one step with two nodes, the second with this structure, its input in dispute.
    function _twoNodes(bytes memory structure)
        private
        returns (uint256 id, Exhibit memory e, Evidence memory evidence)
    {
        bytes32[] memory structures = new bytes32[](2);
        structures[1] = sha256(abi.encodePacked(uint8(0x03), structure));
        Tree memory tree = Trees.build(0x11, structures);
        (_served.nodeCount, _served.steps, _served.structureRoot) = (2, 1, tree.root());
        (e.structure, e.structurePath) = (structure, tree.path(1));
        e.record0 = Record(structures[1], new bytes32[](1), new bytes32[](1), 0);
        e.record1 = Record(structures[1], new bytes32[](1), new bytes32[](1), 0);
        (e.record0.inputs[0], e.record1.inputs[0]) = (keccak256("a"), keccak256("b"));
        bytes32[] memory path = new bytes32[](1);
        path[0] = Runs.recordHash(evidence.source);
        bytes32 node0 = Runs.recordHash(e.record0);
        bytes32 node1 = Runs.recordHash(e.record1);
        id = open(Trees.climb(0x15, node0, 1, path), Trees.climb(0x15, node1, 1, path));
        send(id, Step(Descent(1, node0, path, node1, path), 0, new bytes32[](0)));
        evidence.sourcePath = new bytes32[](1);
        evidence.sourcePath[0] = node1;
    }

    // ------------------------------------------------------------------ 3: logs

    /// @dev Returns the job's log of a node in a step, with its paths.
    function _logOf(uint64 t, uint256 node) private pure returns (LogProof memory proof) {
        Tree memory tree = Runs.logTree(t);
        (proof.log, proof.stepRoot) = (tree.levels[0][node], tree.root());
        (proof.stepPath, proof.nodePath) = (Runs.runLogTree().path(t - 1), tree.path(node));
    }

    function test_aLogThatIsNotTheJobsLoses() public {
        round();
        // NOTE: steps with a checkpoint; in other steps a wrong log with right outputs does not show.
        uint64[3] memory steps = [uint64(4), 8, 10];
        for (uint256 i = 0; i < steps.length; ++i) {
            uint64 t = steps[i];
            (uint256 id, Run memory run0, Run memory run1) = atRecord(Fault(Kind.Log, t, 3, 0, 1));
            Exhibit memory e = exhibit(id, run0, run1);
            refuses(IReferee.LogsDiffer.selector);
            submit(id, e);
            refuses(IReferee.WellFormed.selector);
            judgeStructure(id, e);
            judgeLog(id, e, _logOf(t, 3));
            decided(id, 2, Reason.Log);
        }
    }

    function test_aLogWhereTheJobHasNoneLoses() public {
        round();
        (uint256 id, Run memory run0, Run memory run1) = atRecord(Fault(Kind.Log, 8, 1, 0, 1));
        eq(recordOf(id, run0).log, 0, "the right record has none");
        judgeLog(id, exhibit(id, run0, run1), _logOf(8, 1));
        decided(id, 2, Reason.Log);
    }

    function test_twoWrongLogsBothLose() public {
        round();
        Run memory run0 = Runs.make(Fault(Kind.Log, 8, 3, 0, 1), true);
        Run memory run1 = Runs.make(Fault(Kind.Log, 8, 3, 0, 2), true);
        uint256 id = open(run0, run1);
        toRecord(id, run0, run1);
        judgeLog(id, exhibit(id, run0, run1), _logOf(8, 3));
        decided(id, 3, Reason.Log);
    }

    function test_onlyTheLogOfThisNodeAndStepUnderTheJobsRootCounts() public {
        round();
        (uint256 id, Run memory run0, Run memory run1) = atRecord(Fault(Kind.Log, 8, 3, 0, 1));
        Exhibit memory e = exhibit(id, run0, run1);
        _logRefused(id, e, _logOf(8, 4), Merkle.PathMismatch.selector); // another node
        _logRefused(id, e, _logOf(9, 3), Merkle.PathMismatch.selector); // another step
        LogProof memory proof = _logOf(8, 3);
        proof.log = e.record1.log;
        _logRefused(id, e, proof, Merkle.PathMismatch.selector);
        proof = _logOf(8, 3);
        proof.nodePath = new bytes32[](2);
        _logRefused(id, e, proof, Merkle.WrongPathLength.selector);
        proof = _logOf(8, 3);
        proof.stepPath = new bytes32[](5);
        _logRefused(id, e, proof, Merkle.WrongPathLength.selector);
        // A tree of the attacker's, under no root of the job.
        proof = _logOf(8, 3);
        bytes32[] memory leaves = new bytes32[](5);
        leaves[3] = e.record1.log;
        Tree memory own = Trees.build(0x17, leaves);
        (proof.log, proof.stepRoot, proof.nodePath) = (leaves[3], own.root(), own.path(3));
        _logRefused(id, e, proof, Merkle.PathMismatch.selector);
        _logs = keccak256("other logs");
        _logRefused(id, e, _logOf(8, 3), Merkle.PathMismatch.selector);
    }

    function _logRefused(uint256 id, Exhibit memory e, LogProof memory proof, bytes4 selector) private {
        refuses(selector);
        judgeLog(id, e, proof);
    }

    function test_equalLogsAndModesWithoutLogsAreNotJudgedByLog() public {
        (uint256 id, Run memory run0, Run memory run1) = atRecord(Fault(Kind.Log, 8, 3, 0, 1));
        Exhibit memory e = exhibit(id, run0, run1);
        _logRefused(id, e, _logOf(8, 3), IReferee.Malformed.selector);
        round();
        (id, run0, run1) = atRecord(Fault(Kind.Output, 8, 3, 0, 1));
        e = exhibit(id, run0, run1);
        _logRefused(id, e, _logOf(8, 3), IReferee.LogsEqual.selector);
        submit(id, e);
        inPhase(id, Phase.Hearing);
    }

    // ------------------------------------------------------------------ 4: the operator

    function test_onlyWhenAllInputsAreEqualIsTheOperatorInDispute() public {
        (uint256 id, Run memory run0, Run memory run1) = atRecord(Fault(Kind.Input, 6, 3, 1, 1));
        Exhibit memory e = exhibit(id, run0, run1);
        vm.expectRevert(abi.encodeWithSelector(IReferee.InputsDiffer.selector, 1));
        submit(id, e);

        (id, run0, run1) = atRecord(Fault(Kind.Output, 6, 3, 0, 1));
        submit(id, exhibit(id, run0, run1));
        inPhase(id, Phase.Hearing);
        eq(referee.deadline(id), 0, "nobody owes a move");
        Hearing memory h = panel.getHearing(panel.hearingOf(address(referee), id));
        eq(h.matchId, id, "match");
        eq(h.referee, address(referee), "referee");
        eq(h.file, keccak256(abi.encode(submission(id, exhibit(id, run0, run1)))), "submission");
    }

    function test_onlyThePanelEndsAHearing() public {
        (uint256 id, Run memory run0, Run memory run1) = atRecord(Fault(Kind.Output, 6, 3, 0, 1));
        submit(id, exhibit(id, run0, run1));
        vm.expectRevert(abi.encodeWithSelector(IReferee.NotPanel.selector, address(this)));
        referee.onHearingDecided(id, 1, Reason.Operator, new address[](0));
    }

    function test_notEvenThePanelEndsAMatchThatItDoesNotHear() public {
        (uint256 id,,) = atRecord(Fault(Kind.Output, 6, 3, 0, 1));
        vm.expectRevert(abi.encodeWithSelector(IReferee.WrongPhase.selector, id, Phase.Open, Phase.Hearing));
        vm.prank(address(panel));
        referee.onHearingDecided(id, 1, Reason.Operator, new address[](0));
    }

    // ------------------------------------------------------------------ evidence

    function _fromNode(Run memory run, uint64 t, uint32 node, uint8 input)
        private
        pure
        returns (Evidence memory e)
    {
        e.input = input;
        e.source = run.records[t][node];
        e.sourcePath = run.stepTree(t).path(node);
    }

    function _fromSlot(Run memory run, uint64 t, uint256 slot, uint32 node)
        private
        pure
        returns (Evidence memory e)
    {
        e = _fromNode(run, t - 1, node, 0);
        e.slotNode = node;
        e.slotPath = Runs.slotTree().path(slot);
    }
}
