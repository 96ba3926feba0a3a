// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Hash} from "../commit/Hash.sol";
import {Logs} from "../commit/Logs.sol";
import {Merkle} from "../commit/Merkle.sol";
import {Programs} from "../commit/Programs.sol";
import {Records} from "../commit/Records.sol";
import {Tensors} from "../commit/Tensors.sol";
import {
    IDataAvailability,
    LogPiece,
    Place,
    RecordPiece,
    StepProof,
    TensorPiece
} from "../interfaces/IDataAvailability.sol";
import {Record} from "../interfaces/IReferee.sol";
import {Program} from "../interfaces/JobTypes.sol";

/// @title Pieces
/// @notice Checks that an answer is the piece at a place under a root: its path from the root, and that it can be read.
///
///     logs     run log tree ─ step's log tree ─ 256 digests
///                                            └─ digest ─ log block tree ─ 8 blocks
///     claims   run tree ─ step tree ─ record ─ tensor ─ data tree ─ leaf
///
/// INVARIANT: for every place that `DataAvailability` accepts, a party with the whole run has something to show.
library Pieces {
    /// @dev Levels of a log tree in one answer. NOTE: 16 blocks would be more than the 100,000 bytes of a transaction.
    uint256 internal constant DIGEST_LEVELS = 8;
    uint256 internal constant BLOCK_LEVELS = 3;
    /// @dev The number of the first output in `Place.tensor`.
    uint256 private constant OUTPUTS = 256;

    // ------------------------------------------------------------------ logs

    /// @notice Reverts unless these are the digests of the place's page.
    /// @return size Bytes of the answer.
    function checkDigests(
        Program memory program,
        bytes32 logs,
        Place calldata place,
        bytes32[] calldata digests,
        bytes32[] calldata path,
        StepProof calldata step
    ) internal view returns (uint256 size) {
        uint256 depth = Merkle.depth(program.nodeCount);
        uint256 levels = depth < DIGEST_LEVELS ? depth : DIGEST_LEVELS;
        bytes32 node = Merkle.foldLevel(Hash.LOG_TREE, digests, levels);
        Merkle.check(Hash.LOG_TREE, step.root, node, place.node, depth - levels, path);
        _checkStep(program, logs, place.tree, step);
        return 32 * (digests.length + path.length + step.path.length);
    }

    /// @notice Reverts unless the response is the page of the place's log, or shows that there is none.
    function checkBlocks(
        Program memory program,
        bytes32 logs,
        Place calldata place,
        LogPiece calldata response
    ) internal view returns (uint256 size) {
        Merkle.check(
            Hash.LOG_TREE,
            response.step.root,
            response.log,
            place.node,
            Merkle.depth(program.nodeCount),
            response.logPath
        );
        _checkStep(program, logs, place.tree, response.step);
        size = 32 * (response.logPath.length + response.step.path.length);
        if (response.log == 0) {
            _checkNothing(response.blocks.length + response.path.length);
            return size;
        }
        bytes32 have = Hash.sha(abi.encodePacked(Hash.ROUNDING_LOG, response.elements, response.root));
        if (have != response.log) revert IDataAvailability.WrongDigest(have, response.log);
        uint256 count = (uint256(response.elements) + Logs.BLOCK - 1) / Logs.BLOCK;
        uint256 depth = Merkle.depth(count);
        uint256 levels = depth < BLOCK_LEVELS ? depth : BLOCK_LEVELS;
        // NOTE: a place names a node, and the node's log may have another number of elements than its output.
        if (place.part >> (depth - levels) != 0) {
            _checkNothing(response.blocks.length + response.path.length);
            return size;
        }
        Merkle.check(
            Hash.LOG_BLOCK_TREE,
            response.root,
            _blockNode(response, uint256(place.part) << levels, levels),
            place.part,
            depth - levels,
            response.path
        );
        size += 32 * response.path.length;
        for (uint256 i = 0; i < response.blocks.length; ++i) {
            size += 32 + response.blocks[i].length;
        }
    }

    /// @dev Returns the ancestor of the blocks from `first` on; reverts if a log of this size cannot have them.
    function _blockNode(LogPiece calldata response, uint256 first, uint256 levels)
        private
        view
        returns (bytes32)
    {
        uint256 count = 1 << levels;
        if (response.blocks.length != count) {
            revert IDataAvailability.WrongBlockCount(response.blocks.length, count);
        }
        bytes32[] memory nodes = new bytes32[](count);
        for (uint256 i = 0; i < count; ++i) {
            bytes calldata entries = response.blocks[i];
            uint256 from = (first + i) * Logs.BLOCK;
            uint256 left = from < response.elements ? response.elements - from : 0;
            if (!Logs.readable(entries, left < Logs.BLOCK ? left : Logs.BLOCK)) {
                revert IDataAvailability.Unreadable(first + i);
            }
            nodes[i] = Logs.leaf(entries);
        }
        while (count > 1) {
            count >>= 1;
            for (uint256 i = 0; i < count; ++i) {
                nodes[i] = Hash.pair(Hash.LOG_BLOCK_TREE, nodes[2 * i], nodes[2 * i + 1]);
            }
        }
        return nodes[0];
    }

    function _checkStep(Program memory program, bytes32 logs, uint64 step, StepProof calldata proof)
        private
        view
    {
        // NOTE: steps are counted from 1, leaves from 0.
        Merkle.check(Hash.LOG_RUN_TREE, logs, proof.root, step - 1, Merkle.depth(program.steps), proof.path);
    }

    /// @dev Reverts if anything is shown. SAFETY: readers of events use what is shown, so all of it must be checked.
    function _checkNothing(uint256 shown) private pure {
        if (shown != 0) revert IDataAvailability.NothingThere();
    }

    // ------------------------------------------------------------------ records

    /// @notice Reverts unless this is the record at the place.
    function checkRecord(
        Program memory program,
        bytes32 root,
        Place calldata place,
        RecordPiece calldata response
    ) internal view returns (uint256 size) {
        Merkle.check(
            Hash.STEP_TREE,
            response.checkpoint,
            Records.hash(response.record),
            place.node,
            Merkle.depth(program.nodeCount),
            response.recordPath
        );
        Merkle.check(
            Hash.RUN_TREE,
            root,
            response.checkpoint,
            place.tree,
            Merkle.depth(Programs.checkpoints(program.steps, program.strides[0])),
            response.checkpointPath
        );
        return 32
            * (response.record.inputs.length
                + response.record.outputs.length
                + response.recordPath.length
                + response.checkpointPath.length);
    }

    /// @notice Reverts unless this is the leaf at the place, of a tensor of the record, or shows that there is none.
    function checkLeaf(Place calldata place, Record calldata record, TensorPiece calldata response)
        internal
        view
        returns (uint256 size)
    {
        bool output = place.tensor >= OUTPUTS;
        uint256 number = output ? place.tensor - OUTPUTS : place.tensor;
        bytes32[] calldata tensors = output ? record.outputs : record.inputs;
        if (number >= tensors.length) {
            _checkNothing(response.shape.dims.length + response.leaf.length + response.path.length);
            return 0;
        }
        bytes memory spec = Tensors.packed(response.shape);
        bytes32 have = Tensors.hash(spec, response.root);
        if (have != tensors[number]) revert IDataAvailability.WrongDigest(have, tensors[number]);
        uint256 bytes_ = Tensors.size(spec);
        uint256 count = Tensors.leaves(bytes_);
        if (place.part >= count) {
            _checkNothing(response.leaf.length + response.path.length);
            return 0;
        }

        uint256 left = bytes_ - place.part * Tensors.LEAF_BYTES;
        uint256 length = left < Tensors.LEAF_BYTES ? left : Tensors.LEAF_BYTES;
        if (response.leaf.length != length) {
            revert IDataAvailability.WrongLeafLength(response.leaf.length, length);
        }
        Merkle.check(
            Hash.DATA_TREE,
            response.root,
            Tensors.leafHash(response.leaf),
            place.part,
            Merkle.depth(count),
            response.path
        );
        return length + 32 * response.path.length;
    }
}
