// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Descents} from "./commit/Descents.sol";
import {Hash} from "./commit/Hash.sol";
import {Merkle} from "./commit/Merkle.sol";
import {Modes} from "./commit/Modes.sol";
import {Programs} from "./commit/Programs.sol";
import {Records} from "./commit/Records.sol";
import {Operand, Structures} from "./commit/Structures.sol";
import {Tensors} from "./commit/Tensors.sol";
import {Dispute} from "./interfaces/ICourt.sol";
import {IJobs} from "./interfaces/IJobs.sol";
import {IJudge} from "./interfaces/IJudge.sol";
import {Submission} from "./interfaces/IPanel.sol";
import {
    Evidence,
    Exhibit,
    IReferee,
    LogProof,
    Match,
    MatchTerms,
    Position,
    Reason,
    Record
} from "./interfaces/IReferee.sol";
import {Program} from "./interfaces/JobTypes.sol";
import {Agreed} from "./match/Agreed.sol";

/// @title Judge
/// @notice See IJudge. Structure comes first, then inputs, then log; then the panel hears the operator. Each side is
/// judged against the truth, so both can lose.
contract Judge is IJudge {
    // ------------------------------------------------------------------ conclusions

    function judgeStructure(
        uint256 matchId,
        MatchTerms calldata matchTerms,
        Position calldata here,
        Exhibit calldata exhibit
    ) external view returns (uint8 losers, Reason reason) {
        losers = _malformed(_matchOf(matchId), matchTerms.program, here, exhibit);
        if (losers == 0) revert IReferee.WellFormed();
        return (losers, Reason.Structure);
    }

    function judgeInput(
        uint256 matchId,
        MatchTerms calldata matchTerms,
        Position calldata here,
        Exhibit calldata exhibit,
        Evidence calldata evidence
    ) external view returns (uint8 losers, Reason reason) {
        Match memory m = _matchOf(matchId);
        _examine(m, matchTerms.program, here, exhibit);
        uint256 input = evidence.input;
        Operand memory operand = Structures.operand(exhibit.structure, input);
        bytes32 input0 = exhibit.record0.inputs[input];
        bytes32 input1 = exhibit.record1.inputs[input];
        if (input0 == input1) revert IReferee.InputsEqual(input);
        bytes32 truth;
        (truth, reason) = _truth(m, matchTerms.program, here, operand, evidence);

        // INVARIANT: the inputs differ, so at least one of them is not the truth.
        losers = (input0 != truth ? 1 : 0) | (input1 != truth ? 2 : 0);
    }

    function judgeLog(
        uint256 matchId,
        MatchTerms calldata matchTerms,
        Position calldata here,
        Exhibit calldata exhibit,
        LogProof calldata proof
    ) external view returns (uint8 losers, Reason reason) {
        Match memory m = _matchOf(matchId);
        _examine(m, matchTerms.program, here, exhibit);
        (bytes32 log0, bytes32 log1) = (exhibit.record0.log, exhibit.record1.log);
        if (log0 == log1) revert IReferee.LogsEqual();
        _checkLog(m, matchTerms.program, proof);

        // INVARIANT: the logs differ, so at least one of them is not the truth.
        losers = (log0 != proof.log ? 1 : 0) | (log1 != proof.log ? 2 : 0);
        return (losers, Reason.Log);
    }

    function submit(
        uint256 matchId,
        MatchTerms calldata matchTerms,
        Position calldata here,
        Exhibit calldata exhibit
    ) external view returns (Submission memory submission, Dispute memory dispute) {
        Match memory m = _matchOf(matchId);
        _examine(m, matchTerms.program, here, exhibit);
        for (uint256 i = 0; i < exhibit.record0.inputs.length; ++i) {
            if (exhibit.record0.inputs[i] != exhibit.record1.inputs[i]) revert IReferee.InputsDiffer(i);
        }
        if (exhibit.record0.log != exhibit.record1.log) revert IReferee.LogsDiffer();

        dispute = Dispute([exhibit.record0, exhibit.record1], exhibit.structure, matchTerms.program.mode);
        submission = Submission({
            matchId: matchId,
            jobs: m.jobs,
            jobId: m.jobId,
            step: m.end,
            // SAFETY: a match reaches Open only at an index below `nodeCount < 2^24`.
            node: uint32(m.index),
            players: matchTerms.players,
            records: here.node,
            dispute: keccak256(abi.encode(dispute))
        });
    }

    function check(Program calldata program) external view returns (bytes32) {
        Programs.checkKnown(program);
        Programs.check(program);
        return Programs.hash(program);
    }

    // ------------------------------------------------------------------ evidence

    /// @dev Returns the state of the caller's match.
    function _matchOf(uint256 matchId) private view returns (Match memory) {
        return IReferee(msg.sender).getMatch(matchId);
    }

    /// @dev Binds an exhibit to the match. Reverts unless both records are what the program says.
    function _examine(
        Match memory m,
        Program calldata program,
        Position calldata here,
        Exhibit calldata exhibit
    ) private view {
        uint8 malformed = _malformed(m, program, here, exhibit);
        if (malformed != 0) revert IReferee.Malformed(malformed);
    }

    /// @dev Binds an exhibit to the match. Bit `s` of the result: record `s` is not what the program says.
    function _malformed(
        Match memory m,
        Program calldata program,
        Position calldata here,
        Exhibit calldata exhibit
    ) private view returns (uint8 malformed) {
        _checkRecord(here, 0, exhibit.record0);
        _checkRecord(here, 1, exhibit.record1);
        Merkle.check(
            Hash.STRUCTURE_TREE,
            program.structureRoot,
            Hash.structure(exhibit.structure),
            m.index,
            Merkle.depth(program.nodeCount),
            exhibit.structurePath
        );
        bool rounded = Modes.rounded(program.mode);
        if (!Records.wellFormed(exhibit.record0, exhibit.structure, rounded)) malformed |= 1;
        if (!Records.wellFormed(exhibit.record1, exhibit.structure, rounded)) malformed |= 2;
    }

    function _checkRecord(Position calldata here, uint8 side, Record calldata record) private view {
        bytes32 have = Records.hash(record);
        if (have != here.node[side]) revert Descents.WrongNode(side, have, here.node[side]);
    }

    /// @dev Checks that the log is the disputed node's in the disputed step, under the trainer's revealed root.
    function _checkLog(Match memory m, Program calldata program, LogProof calldata proof) private view {
        Merkle.check(
            Hash.LOG_TREE, proof.stepRoot, proof.log, m.index, Merkle.depth(program.nodeCount), proof.nodePath
        );
        // NOTE: steps are counted from 1, leaves from 0.
        Merkle.check(
            Hash.LOG_RUN_TREE,
            IJobs(m.jobs).logsOf(m.jobId),
            proof.stepRoot,
            m.end - 1,
            Merkle.depth(program.steps),
            proof.stepPath
        );
    }

    /// @dev Returns the true value of an input, by its origin in the program.
    function _truth(
        Match memory m,
        Program calldata program,
        Position calldata here,
        Operand memory operand,
        Evidence calldata evidence
    ) private view returns (bytes32, Reason) {
        if (operand.kind == Structures.NODE) {
            return (_ofNode(m, program, here, operand, evidence), Reason.InputNode);
        }
        if (operand.kind == Structures.STATE_SLOT) {
            return (_ofSlot(m, program, here, operand, evidence), Reason.InputCheckpoint);
        }
        if (operand.kind == Structures.CONSTANT) {
            return (_ofConstant(program, operand, evidence), Reason.InputConstant);
        }
        if (operand.kind == Structures.STEP) return (Tensors.step(m.end), Reason.InputStep);
        revert IReferee.UnknownOperand(operand.kind);
    }

    /// @dev Returns an output of an earlier node of the same step.
    function _ofNode(
        Match memory m,
        Program calldata program,
        Position calldata here,
        Operand memory operand,
        Evidence calldata evidence
    ) private view returns (bytes32) {
        // SAFETY: only nodes to the left of the position are agreed.
        if (operand.index >= m.index) revert IReferee.ForwardReference(operand.index, m.index);
        Agreed.check(
            here,
            Hash.STEP_TREE,
            Records.hash(evidence.source),
            operand.index,
            Merkle.depth(program.nodeCount),
            evidence.sourcePath
        );
        return Records.outputOrZero(evidence.source, operand.output);
    }

    /// @dev Returns the state before the step: the initial tensor, or the output that the slot table names.
    function _ofSlot(
        Match memory m,
        Program calldata program,
        Position calldata here,
        Operand memory operand,
        Evidence calldata evidence
    ) private view returns (bytes32) {
        uint8 slotDepth = Merkle.depth(program.slotCount);
        if (m.start == 0) {
            Merkle.check(
                Hash.INITIAL_TREE, here.agreed, evidence.tensor, operand.index, slotDepth, evidence.sourcePath
            );
            return evidence.tensor;
        }
        bytes32 row = Hash.slot(evidence.slotNode, evidence.slotOutput);
        Merkle.check(Hash.SLOT_TREE, program.slotRoot, row, operand.index, slotDepth, evidence.slotPath);
        Merkle.check(
            Hash.STEP_TREE,
            here.agreed,
            Records.hash(evidence.source),
            evidence.slotNode,
            Merkle.depth(program.nodeCount),
            evidence.sourcePath
        );
        return Records.outputOrZero(evidence.source, evidence.slotOutput);
    }

    function _ofConstant(Program calldata program, Operand memory operand, Evidence calldata evidence)
        private
        view
        returns (bytes32)
    {
        Merkle.check(
            Hash.CONSTANT_TREE,
            program.constantRoot,
            evidence.tensor,
            operand.index,
            Merkle.depth(program.constantCount),
            evidence.sourcePath
        );
        return evidence.tensor;
    }
}
