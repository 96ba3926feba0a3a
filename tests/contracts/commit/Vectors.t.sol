// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Base} from "../Base.t.sol";
import {Commit} from "../support/Commit.sol";
import {Tree, Trees} from "../support/Trees.sol";
import {Verdicts} from "../support/Verdicts.sol";
import {Operand} from "contracts/commit/Structures.sol";
import {Program} from "contracts/interfaces/IJobs.sol";
import {Record} from "contracts/interfaces/IReferee.sol";

/// @notice Hashes of Python and of the contracts are equal: tests/vectors/commitments.json.
contract VectorsTest is Base {
    using Trees for Tree;

    Commit private commit = new Commit();
    string private json = vm.readFile("tests/vectors/commitments.json");

    // ------------------------------------------------------------------ reading

    function _count(string memory kind) private view returns (uint256 count) {
        count = vm.parseJsonUint(json, string.concat(".counts.", kind));
        yes(count > 0, kind);
    }

    function _at(string memory list, uint256 i) private pure returns (string memory) {
        return string.concat(list, "[", vm.toString(i), "]");
    }

    function _hash(string memory path, string memory key) private view returns (bytes32) {
        return vm.parseJsonBytes32(json, string.concat(path, key));
    }

    function _hashes(string memory path, string memory key) private view returns (bytes32[] memory) {
        return vm.parseJsonBytes32Array(json, string.concat(path, key));
    }

    function _uint(string memory path, string memory key) private view returns (uint256) {
        return vm.parseJsonUint(json, string.concat(path, key));
    }

    function _uints(string memory path, string memory key) private view returns (uint256[] memory) {
        return vm.parseJsonUintArray(json, string.concat(path, key));
    }

    // ------------------------------------------------------------------ trees

    /// @dev Fields in alphabetical order, as the cheatcode decodes JSON objects.
    struct TreeVector {
        uint256 depth;
        bytes32 empty;
        FoldVector fold;
        bytes32[] leaves;
        PathVector[] paths;
        bytes32 root;
        uint256 tag;
    }

    struct FoldVector {
        bytes32[] children;
        uint256 levels;
        bytes32 node;
    }

    struct PathVector {
        uint256 index;
        bytes32 leaf;
        bytes32[] path;
    }

    function test_trees() public view {
        uint256 count = _count("trees");
        for (uint256 i = 0; i < count; ++i) {
            this.checkTree(i);
        }
    }

    /// @dev In a frame of its own, so that memory does not pile up.
    function checkTree(uint256 i) external view {
        TreeVector memory tree = abi.decode(vm.parseJson(json, _at(".trees", i)), (TreeVector));
        uint8 tag = uint8(tree.tag);
        eq(commit.depth(tree.leaves.length), tree.depth, "depth");
        eq(commit.empty(tag), tree.empty, "empty leaf");
        eq(Trees.build(tag, tree.leaves).root(), tree.root, "root");
        eq(commit.foldLevel(tag, tree.fold.children, tree.fold.levels), tree.fold.node, "fold");
        for (uint256 k = 0; k < tree.paths.length; ++k) {
            PathVector memory path = tree.paths[k];
            commit.check(tag, tree.root, path.leaf, path.index, tree.depth, path.path);
        }
    }

    // ------------------------------------------------------------------ hashes

    function test_structures() public view {
        uint256 count = _count("structures");
        for (uint256 i = 0; i < count; ++i) {
            string memory at = _at(".structures", i);
            bytes memory encoding = vm.parseJsonBytes(json, string.concat(at, ".encoding"));
            uint256[] memory kinds = _uints(at, ".kinds");
            (uint16 op, uint8 nin, uint8 nout) = commit.header(encoding);
            eq(op, _uint(at, ".op"), "operator");
            eq(nin, kinds.length, "inputs");
            eq(nout, _uint(at, ".nout"), "outputs");
            for (uint256 k = 0; k < kinds.length; ++k) {
                Operand memory operand = commit.operand(encoding, k);
                eq(operand.kind, kinds[k], "kind");
                eq(operand.index, _uints(at, ".indices")[k], "index");
                eq(operand.output, _uints(at, ".outputs")[k], "output");
            }
            eq(commit.structure(encoding), _hash(at, ".hash"), "structure");
        }
    }

    function test_records() public view {
        uint256 count = _count("records");
        for (uint256 i = 0; i < count; ++i) {
            string memory at = _at(".records", i);
            Record memory record = Record(
                _hash(at, ".structure"), _hashes(at, ".inputs"), _hashes(at, ".outputs"), _hash(at, ".log")
            );
            eq(commit.record(record), _hash(at, ".hash"), "record");
        }
    }

    function test_programs() public view {
        uint256 count = _count("programs");
        for (uint256 i = 0; i < count; ++i) {
            string memory at = _at(".programs", i);
            Program memory p;
            p.opsetVersion = uint32(_uint(at, ".opsetVersion"));
            p.mode = uint8(_uint(at, ".mode"));
            p.nodeCount = uint32(_uint(at, ".nodeCount"));
            p.slotCount = uint32(_uint(at, ".slotCount"));
            p.constantCount = uint32(_uint(at, ".constantCount"));
            p.steps = uint64(_uint(at, ".steps"));
            p.structureRoot = _hash(at, ".structureRoot");
            p.slotRoot = _hash(at, ".slotRoot");
            p.constantRoot = _hash(at, ".constantRoot");
            p.initialRoot = _hash(at, ".initialRoot");
            uint256[] memory strides = _uints(at, ".strides");
            p.strides = new uint64[](strides.length);
            for (uint256 k = 0; k < strides.length; ++k) {
                p.strides[k] = uint64(strides[k]);
            }
            eq(commit.program(p), _hash(at, ".hash"), "program");
        }
    }

    function test_slotsAndSteps() public view {
        uint256 count = _count("slots");
        for (uint256 i = 0; i < count; ++i) {
            string memory at = _at(".slots", i);
            eq(
                commit.slot(uint32(_uint(at, ".node")), uint8(_uint(at, ".output"))),
                _hash(at, ".hash"),
                "slot"
            );
        }
        count = _count("steps");
        for (uint256 i = 0; i < count; ++i) {
            string memory at = _at(".steps", i);
            eq(commit.step(uint64(_uint(at, ".step"))), _hash(at, ".hash"), "step number");
        }
    }

    // ------------------------------------------------------------------ commitments and signatures

    function test_commitments() public {
        uint256 count = _count("commitments");
        for (uint256 i = 0; i < count; ++i) {
            string memory at = _at(".commitments", i);
            // A commitment binds chain and contract, so the libraries are deployed at this address.
            vm.chainId(_uint(at, ".chainId"));
            address jobs = vm.parseJsonAddress(json, string.concat(at, ".jobs"));
            vm.etch(jobs, address(commit).code);
            bytes32 have = Commit(jobs)
                .commitment(
                    _uint(at, ".jobId"),
                    vm.parseJsonAddress(json, string.concat(at, ".sender")),
                    _hash(at, ".root"),
                    _hash(at, ".last"),
                    _hash(at, ".logs"),
                    _hash(at, ".salt")
                );
            eq(have, _hash(at, ".commitment"), "commitment");
        }
    }

    function test_verdicts() public view {
        uint256 count = _count("verdicts");
        for (uint256 i = 0; i < count; ++i) {
            string memory at = _at(".verdicts", i);
            bytes32 digest = Verdicts.digest(
                _uint(at, ".chainId"),
                vm.parseJsonAddress(json, string.concat(at, ".panel")),
                uint256(_hash(at, ".hearingId")),
                uint64(_uint(at, ".step")),
                uint32(_uint(at, ".node")),
                _hash(at, ".record")
            );
            eq(digest, _hash(at, ".digest"), "digest");
            (uint8 v, bytes32 r, bytes32 s) = vm.sign(uint256(_hash(at, ".key")), digest);
            bytes memory signature = vm.parseJsonBytes(json, string.concat(at, ".signature"));
            eq(keccak256(abi.encodePacked(r, s, v)), keccak256(signature), "signature");
        }
    }
}
