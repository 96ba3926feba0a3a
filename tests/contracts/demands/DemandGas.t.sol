// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Trees} from "../support/Trees.sol";
import {Demanded} from "./Demanded.sol";
import {LogPiece, Piece, Place, Subject} from "contracts/interfaces/IDemands.sol";

/// @notice What demands and answers cost, and that an answer is paid more than that.
/// forge-config: default.isolate = true
contract DemandGasTest is Demanded {
    uint256 private _job = runClaimed();

    /// @dev What an answer costs at the price of the deployer is less than what it is paid.
    function test_anAnswerIsPaidWhatItCosts() public {
        Place[] memory list = somePlaces();
        for (uint256 i = 0; i < list.length; ++i) {
            Subject memory s = list[i].piece < Piece.Record ? ofLogs(_job) : ofClaim(_job);
            demand(s, list[i]);
            uint256 before = demands.credit(AUTHOR);
            answer(s, list[i]);
            uint256 gas = vm.snapshotGasLastCall("Demands", string.concat("answer ", vm.toString(i)));
            yes(demands.credit(AUTHOR) - before > gas * PRICE, vm.toString(gas));
        }
    }

    /// @dev A page in which every element has a value of its own: 98,304 bytes.
    function test_theLongestPageFitsInATransactionAndIsPaid() public {
        LogPiece memory a;
        a.elements = 16 * 1024;
        a.blocks = new bytes[](16);
        bytes32[] memory leaves = new bytes32[](16);
        bytes memory entries = new bytes(6144);
        for (uint256 i = 0; i < 1024; ++i) {
            bytes6 entry = bytes6(uint48((i << 2 | 3) << 32 | 0xC1234567));
            for (uint256 k = 0; k < 6; ++k) {
                entries[6 * i + k] = entry[k];
            }
        }
        for (uint256 i = 0; i < 16; ++i) {
            a.blocks[i] = entries;
            leaves[i] = sha256(abi.encodePacked(uint8(0x0A), entries));
        }
        a.root = Trees.root(Trees.build(0x19, leaves));
        a.log = sha256(abi.encodePacked(uint8(0x09), a.elements, a.root));
        a.step.root = a.log;
        Subject memory s = claimedWith(a.log);
        demand(s, blocks(1, 0, 0));
        vm.prank(AUTHOR);
        demands.answerBlocks(s, blocks(1, 0, 0), a);
        uint256 gas = vm.snapshotGasLastCall("Demands", "longest");
        yes(gas < 1 << 24, "EIP-7825");
        yes(demands.credit(AUTHOR) > gas * PRICE, vm.toString(gas));
    }

    function test_whatManyPlacesCost() public {
        Subject memory s = ofLogs(_job);
        Place[] memory list = new Place[](64);
        for (uint64 i = 0; i < 64; ++i) {
            list[i] = blocks(1 + i % 5, uint32(i / 5 % 3), i);
        }
        demand(s, list);
        vm.snapshotGasLastCall("Demands", "demand of 64 places");
        demand(s, digests(1));
        vm.snapshotGasLastCall("Demands", "demand of a place");
    }
}
