// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Base} from "../Base.t.sol";
import {Commit} from "../support/Commit.sol";
import {Records} from "contracts/commit/Records.sol";
import {Operand, Structures} from "contracts/commit/Structures.sol";
import {Record} from "contracts/interfaces/IReferee.sol";

/// @notice Nothing is read past the end of an encoding, and no count wraps.
contract StructuresTest is Base {
    Commit private commit = new Commit();

    function test_headerAndOperands() public view {
        bytes memory encoding = hex"012302050000000007010200000102" hex"03ff";
        (uint16 op, uint8 nin, uint8 nout) = commit.header(abi.encodePacked(encoding, hex"00000000"));
        eq(op, 0x0123, "operator");
        eq(nin, 2, "inputs");
        eq(nout, 5, "outputs");
        Operand memory operand = commit.operand(abi.encodePacked(encoding, hex"00"), 1);
        eq(operand.kind, 2, "kind");
        eq(operand.index, 0x102, "index");
        eq(operand.output, 3, "output");
    }

    function test_fuzz_anEncodingCutAnywhereBeforeItsOutputsIsRefused(uint8 nin, uint256 cut) public {
        uint256 need = 4 + 6 * uint256(nin);
        bytes memory encoding = new bytes(bound(cut, 0, need - 1));
        if (encoding.length > 2) encoding[2] = bytes1(nin);
        if (encoding.length < 4) need = 4;
        vm.expectRevert(abi.encodeWithSelector(Structures.StructureTruncated.selector, encoding.length, need));
        commit.header(encoding);
        vm.expectRevert(abi.encodeWithSelector(Structures.StructureTruncated.selector, encoding.length, need));
        commit.operand(encoding, 0);
    }

    function test_anEncodingHasAtMost8192Bytes() public {
        commit.header(new bytes(8192));
        vm.expectRevert(abi.encodeWithSelector(Structures.StructureTooLong.selector, 8193));
        commit.header(new bytes(8193));
    }

    function test_anInputBeyondTheLastIsRefused() public {
        vm.expectRevert(abi.encodeWithSelector(Structures.NoSuchInput.selector, 1, 1));
        commit.operand(hex"00000101000000000000000000000000", 1);
    }

    function test_aRecordsCountsDoNotWrap() public {
        Record memory record;
        record.inputs = new bytes32[](255);
        record.outputs = new bytes32[](8);
        commit.record(record);
        record.inputs = new bytes32[](256);
        vm.expectRevert(abi.encodeWithSelector(Records.TooManyInputs.selector, 256));
        commit.record(record);
        record.inputs = new bytes32[](0);
        record.outputs = new bytes32[](9);
        vm.expectRevert(abi.encodeWithSelector(Records.TooManyOutputs.selector, 9));
        commit.record(record);
    }

    function test_checkpointsOfAnInterval() public view {
        eq(commit.checkpoints(10, 4), 3, "10 at 4");
        eq(commit.checkpoints(8, 4), 2, "8 at 4");
        eq(commit.checkpoints(3, 4), 1, "3 at 4");
        eq(commit.checkpoints(type(uint64).max, type(uint64).max - 1), 2, "no overflow");
    }
}
