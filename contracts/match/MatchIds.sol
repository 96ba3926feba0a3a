// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {MatchTerms} from "../interfaces/IReferee.sol";

/// @title MatchIds
/// @notice The id of a match: a hash of everything that defines it, with the number that its Jobs contract gave it as the
/// last bits, by which that contract knows the match again without storing it.
///
///     208 bits of keccak256(abi.encode(jobs, jobId, matchTerms)) ‖ number u48
library MatchIds {
    uint256 internal constant NUMBERS = 1 << 48;

    function idOf(address jobs, uint256 jobId, MatchTerms memory matchTerms) internal pure returns (uint256) {
        return join(keccak256(abi.encode(jobs, jobId, matchTerms)), matchTerms.number);
    }

    function join(bytes32 hash, uint256 number) internal pure returns (uint256) {
        return (uint256(hash) & ~(NUMBERS - 1)) | (number & (NUMBERS - 1));
    }
}
