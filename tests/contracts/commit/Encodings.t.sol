// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Base} from "../Base.t.sol";
import {Encodings} from "contracts/commit/Encodings.sol";
import {Dispute, Said, Suit} from "contracts/interfaces/ICourt.sol";
import {Docket} from "contracts/interfaces/IReferee.sol";

/// @notice Structs that lie in calldata have the hashes of their encodings, and of nothing else.
contract EncodingsTest is Base {
    // ------------------------------------------------------------------ as they lie

    function hashOf(address jobs, uint256 jobId, Docket calldata docket) external pure returns (bytes32) {
        return Encodings.hash(jobs, jobId, docket);
    }

    function hashOf(Dispute calldata dispute) external pure returns (bytes32) {
        return Encodings.hash(dispute);
    }

    function hashOf(Suit calldata suit) external pure returns (bytes32) {
        return Encodings.hash(suit);
    }

    function hashOf(Said calldata said) external pure returns (bytes32) {
        return Encodings.hash(said);
    }

    // ------------------------------------------------------------------ the same

    function testFuzz_aDocket(address jobs, uint256 jobId, Docket memory docket) public view {
        eq(this.hashOf(jobs, jobId, docket), keccak256(abi.encode(jobs, jobId, docket)), "docket");
    }

    function testFuzz_aDispute(Dispute memory dispute) public view {
        eq(this.hashOf(dispute), keccak256(abi.encode(dispute)), "dispute");
    }

    function testFuzz_aSuit(Suit memory suit) public view {
        eq(this.hashOf(suit), keccak256(abi.encode(suit)), "suit");
    }

    function testFuzz_whatWasSaid(Said memory said) public view {
        eq(this.hashOf(said), keccak256(abi.encode(said)), "said");
    }

    function test_emptyOnes() public view {
        Docket memory docket;
        Dispute memory dispute;
        Suit memory suit;
        Said memory said;
        testFuzz_aDocket(address(0), 0, docket);
        testFuzz_aDispute(dispute);
        testFuzz_aSuit(suit);
        testFuzz_whatWasSaid(said);
    }

    /// @dev To a word, and a byte less and more.
    function test_structuresOfEveryLengthToAWord() public view {
        Dispute memory dispute;
        for (uint256 length = 0; length < 70; ++length) {
            dispute.structure = new bytes(length);
            if (length > 0) dispute.structure[length - 1] = 0xFF;
            testFuzz_aDispute(dispute);
        }
    }

    // ------------------------------------------------------------------ and nothing else

    /// @dev The same dispute in another form: its structure elsewhere, its old place used for something else.
    function test_theSameInAnotherFormHasAnotherHash() public view {
        Dispute memory dispute;
        (dispute.structure, dispute.mode) = ("structure", 1);
        bytes32 want = this.hashOf(dispute);
        bytes memory call = abi.encodeWithSignature(
            "hashOf(((bytes32,bytes32[],bytes32[],bytes32)[2],bytes,uint8))", dispute
        );
        eq(_hashed(call), want, "as it is encoded");
        // The second word of the dispute, behind selector and offset, says where the structure begins.
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
        Suit memory suit;
        suit.bench = address(0xBEAC);
        bytes memory call = abi.encodeWithSignature("hashOf((address,uint256,address[2],bytes32))", suit);
        bytes32 want = _hashed(call);
        eq(want, keccak256(abi.encode(suit)), "clean");
        call[4] = 0x01;
        yes(_hashed(call) != want, "dirt above an address");
    }

    /// @dev Zero if it is refused.
    function _hashed(bytes memory call) private view returns (bytes32) {
        (bool ok, bytes memory answer) = address(this).staticcall(call);
        return ok ? abi.decode(answer, (bytes32)) : bytes32(0);
    }
}
