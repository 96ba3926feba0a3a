// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Descents} from "../commit/Descents.sol";
import {Hash} from "../commit/Hash.sol";
import {Merkle} from "../commit/Merkle.sol";
import {Modes} from "../commit/Modes.sol";
import {Records} from "../commit/Records.sol";
import {Operand, Structures} from "../commit/Structures.sol";
import {Tensors} from "../commit/Tensors.sol";
import {Dispute} from "../interfaces/ICourt.sol";
import {IJobs, Program} from "../interfaces/IJobs.sol";
import {Submission} from "../interfaces/IPanel.sol";
import {
    Docket,
    Evidence,
    Exhibit,
    LogProof,
    Match,
    Phase,
    Position,
    Reason,
    Record
} from "../interfaces/IReferee.sol";
import {MatchBase} from "./MatchBase.sol";

/// @title Judge
/// @notice What is decided at the disputed node: structure, then inputs, then log; then the panel hears what is right of the operator.
/// Each side is judged against the truth, so both can lose.
abstract contract Judge is MatchBase {
    // ------------------------------------------------------------------ moves

    function openRecord(uint256 matchId, Position calldata here, uint8 side, Record calldata record)
        external
    {
        Match storage m = _begin(matchId, here, Phase.Open);
        _post(m, matchId, side);
        _checkRecord(here, side, record);

        emit RecordOpened(matchId, side, record);
    }

    function judgeStructure(
        uint256 matchId,
        Docket calldata docket,
        Position calldata here,
        Exhibit calldata exhibit
    ) external {
        Match storage m = _begin(matchId, docket, here, Phase.Open);
        uint8 malformed = _malformed(m, docket.program, here, exhibit);
        if (malformed == 0) revert WellFormed();

        _decide(m, matchId, malformed, Reason.Structure);
    }

    function judgeInput(
        uint256 matchId,
        Docket calldata docket,
        Position calldata here,
        Exhibit calldata exhibit,
        Evidence calldata evidence
    ) external {
        Match storage m = _begin(matchId, docket, here, Phase.Open);
        _examine(m, docket.program, here, exhibit);
        uint256 input = evidence.input;
        Operand memory operand = Structures.operand(exhibit.structure, input);
        bytes32 input0 = exhibit.record0.inputs[input];
        bytes32 input1 = exhibit.record1.inputs[input];
        if (input0 == input1) revert InputsEqual(input);
        (bytes32 truth, Reason reason) = _truth(m, docket.program, here, operand, evidence);

        // INVARIANT: the inputs differ, so at least one of them is not the truth.
        uint8 losers = (input0 != truth ? 1 : 0) | (input1 != truth ? 2 : 0);
        _decide(m, matchId, losers, reason);
    }

    function judgeLog(
        uint256 matchId,
        Docket calldata docket,
        Position calldata here,
        Exhibit calldata exhibit,
        LogProof calldata proof
    ) external {
        Match storage m = _begin(matchId, docket, here, Phase.Open);
        _examine(m, docket.program, here, exhibit);
        (bytes32 log0, bytes32 log1) = (exhibit.record0.log, exhibit.record1.log);
        if (log0 == log1) revert LogsEqual();
        _checkLog(m, docket.program, proof);

        // INVARIANT: the logs differ, so at least one of them is not the truth.
        uint8 losers = (log0 != proof.log ? 1 : 0) | (log1 != proof.log ? 2 : 0);
        _decide(m, matchId, losers, Reason.Log);
    }

    function submit(uint256 matchId, Docket calldata docket, Position calldata here, Exhibit calldata exhibit)
        external
    {
        Match storage m = _begin(matchId, docket, here, Phase.Open);
        _examine(m, docket.program, here, exhibit);
        for (uint256 i = 0; i < exhibit.record0.inputs.length; ++i) {
            if (exhibit.record0.inputs[i] != exhibit.record1.inputs[i]) revert InputsDiffer(i);
        }
        if (exhibit.record0.log != exhibit.record1.log) revert LogsDiffer();

        m.phase = Phase.Hearing;
        m.posted = 0;
        Dispute memory dispute =
            Dispute([exhibit.record0, exhibit.record1], exhibit.structure, docket.program.mode);
        // SAFETY: a match reaches Open only at an index below `nodeCount < 2^24`.
        PANEL.hear(
            Submission({
                matchId: matchId,
                jobs: m.jobs,
                jobId: m.jobId,
                step: m.end,
                node: uint32(m.index),
                players: docket.players,
                records: here.node,
                dispute: keccak256(abi.encode(dispute))
            }),
            dispute
        );
    }

    function ruled(uint256 matchId, uint8 losers, Reason reason, address[] calldata deciders) external {
        if (msg.sender != address(PANEL)) revert NotPanel(msg.sender);
        // INVARIANT: the panel says it once for each match that was submitted, so the phase is Hearing.
        _decide(_matches[matchId], matchId, losers, reason, deciders);
    }

    // ------------------------------------------------------------------ views

    /// @dev Binds an exhibit to the match. Reverts unless both records are what the program says.
    function _examine(
        Match storage m,
        Program calldata program,
        Position calldata here,
        Exhibit calldata exhibit
    ) private view {
        uint8 malformed = _malformed(m, program, here, exhibit);
        if (malformed != 0) revert Malformed(malformed);
    }

    /// @dev Binds an exhibit to the match. Bit `s` of the result: record `s` is not what the program says.
    function _malformed(
        Match storage m,
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

    /// @dev The log is that of the disputed node and step, under the root that the trainer revealed with the claim.
    function _checkLog(Match storage m, Program calldata program, LogProof calldata proof) private view {
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

    /// @dev The true value of an input, by where the program says that it comes from.
    function _truth(
        Match storage m,
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
        revert UnknownOperand(operand.kind);
    }

    /// @dev An output of an earlier node of the same step.
    function _ofNode(
        Match storage m,
        Program calldata program,
        Position calldata here,
        Operand memory operand,
        Evidence calldata evidence
    ) private view returns (bytes32) {
        // SAFETY: only what is left of the position is agreed.
        if (operand.index >= m.index) revert ForwardReference(operand.index, m.index);
        _checkAgreed(
            here,
            Hash.STEP_TREE,
            Records.hash(evidence.source),
            operand.index,
            Merkle.depth(program.nodeCount),
            evidence.sourcePath
        );
        return Records.outputOrZero(evidence.source, operand.output);
    }

    /// @dev The state before the step: the initial tensor, or what the slot table names in the agreed step before.
    function _ofSlot(
        Match storage m,
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
