// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Base} from "../Base.t.sol";
import {Encodings} from "contracts/commit/Encodings.sol";
import {Dispute, TrialPosition, TrialTerms} from "contracts/interfaces/ICourt.sol";
import {MatchTerms} from "contracts/interfaces/IReferee.sol";

/// @notice Structs in calldata have the hashes of their encodings, and nothing else has these.
contract EncodingsTest is Base {
    // ------------------------------------------------------------------ hashes of calldata

    function hashOf(address jobs, uint256 jobId, MatchTerms calldata matchTerms)
        external
        pure
        returns (bytes32)
    {
        return Encodings.hash(jobs, jobId, matchTerms);
    }

    function hashOf(Dispute calldata dispute) external pure returns (bytes32) {
        return Encodings.hash(dispute);
    }

    function hashOf(TrialTerms calldata trialTerms) external pure returns (bytes32) {
        return Encodings.hash(trialTerms);
    }

    function hashOf(TrialPosition calldata position) external pure returns (bytes32) {
        return Encodings.hash(position);
    }

    // ------------------------------------------------------------------ equal hashes

    function testFuzz_matchTerms(address jobs, uint256 jobId, MatchTerms memory matchTerms) public view {
        eq(this.hashOf(jobs, jobId, matchTerms), keccak256(abi.encode(jobs, jobId, matchTerms)), "matchTerms");
    }

    function testFuzz_aDispute(Dispute memory dispute) public view {
        eq(this.hashOf(dispute), keccak256(abi.encode(dispute)), "dispute");
    }

    function testFuzz_trialTerms(TrialTerms memory trialTerms) public view {
        eq(this.hashOf(trialTerms), keccak256(abi.encode(trialTerms)), "trialTerms");
    }

    function testFuzz_trialPosition(TrialPosition memory position) public view {
        eq(this.hashOf(position), keccak256(abi.encode(position)), "position");
    }

    function test_emptyOnes() public view {
        MatchTerms memory matchTerms;
        Dispute memory dispute;
        TrialTerms memory trialTerms;
        TrialPosition memory position;
        testFuzz_matchTerms(address(0), 0, matchTerms);
        testFuzz_aDispute(dispute);
        testFuzz_trialTerms(trialTerms);
        testFuzz_trialPosition(position);
    }

    /// @dev Whole words, and a byte less and more.
    function test_structuresOfEveryLengthToAWord() public view {
        Dispute memory dispute;
        for (uint256 length = 0; length < 70; ++length) {
            dispute.structure = new bytes(length);
            if (length > 0) dispute.structure[length - 1] = 0xFF;
            testFuzz_aDispute(dispute);
        }
    }

    // ------------------------------------------------------------------ another form, another hash

    /// @dev The dispute in another form: its structure is elsewhere, and its old place has other bytes.
    function test_theSameInAnotherFormHasAnotherHash() public view {
        Dispute memory dispute;
        (dispute.structure, dispute.mode) = ("structure", 1);
        bytes32 want = this.hashOf(dispute);
        bytes memory call = abi.encodeWithSignature(
            "hashOf(((bytes32,bytes32[],bytes32[],bytes32)[2],bytes,uint8))", dispute
        );
        eq(_hashed(call), want, "as it is encoded");
        // The second word of the dispute, after selector and offset, is the offset of the structure.
        uint256 at = 4 + 0x20 + 0x20;
        uint256 offset = call.length - 4 - 0x20;
        bytes memory moved = abi.encodePacked(call, uint256(9), bytes32("structure"));
        assembly ("memory-safe") {
            mstore(add(add(moved, 0x20), at), offset)
        }
        yes(_hashed(moved) != want, "elsewhere");
        call[call.length - 1] = 0x01;
        yes(_hashed(call) != want, "dirt behind the structure");
    }

    function test_dirtyWordsHaveAnotherHash() public view {
        TrialTerms memory trialTerms;
        trialTerms.client = address(0xBEAC);
        bytes memory call =
            abi.encodeWithSignature("hashOf((address,uint256,address[2],bytes32))", trialTerms);
        bytes32 want = _hashed(call);
        eq(want, keccak256(abi.encode(trialTerms)), "clean");
        call[4] = 0x01;
        yes(_hashed(call) != want, "dirt above an address");
    }

    /// @dev Returns zero if the call is refused.
    function _hashed(bytes memory call) private view returns (bytes32) {
        (bool ok, bytes memory answer) = address(this).staticcall(call);
        return ok ? abi.decode(answer, (bytes32)) : bytes32(0);
    }
}
