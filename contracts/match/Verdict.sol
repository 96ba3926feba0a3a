// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {IJobs} from "../interfaces/IJobs.sol";
import {Match, Phase, Reason} from "../interfaces/IReferee.sol";
import {MatchBase} from "./MatchBase.sol";
import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";

/// @title Verdict
/// @notice The votes of a job's verifiers on the right record of the disputed node.
abstract contract Verdict is MatchBase, EIP712 {
    // ------------------------------------------------------------------ storage

    bytes32 public constant VERDICT_TYPEHASH =
        keccak256("Verdict(uint256 matchId,uint64 step,uint32 node,bytes32 record)");

    mapping(uint256 matchId => mapping(bytes32 record => address[])) private _votes;
    mapping(uint256 matchId => mapping(address verifier => bool)) private _voted;

    // ------------------------------------------------------------------ constructor

    constructor() EIP712("Assay Referee", "1") {}

    // ------------------------------------------------------------------ moves

    function attest(uint256 matchId, bytes32 record, bytes calldata signature) external {
        Match storage m = _matches[matchId];
        if (m.phase != Phase.Verdict) revert WrongPhase(matchId, m.phase, Phase.Verdict);
        uint256 until = _until(m);
        if (block.timestamp >= until) revert VerdictOver(until);
        address verifier = ECDSA.recover(_digest(m, matchId, record), signature);
        if (_voted[matchId][verifier]) revert AlreadyVoted(verifier);
        if (!IJobs(m.jobs).isVerifier(m.jobId, verifier)) revert NotVerifier(verifier);

        _voted[matchId][verifier] = true;
        address[] storage voters = _votes[matchId][record];
        voters.push(verifier);
        emit Attested(matchId, verifier, record, voters.length);

        if (voters.length < m.threshold) return;
        // INVARIANT: the nodes differ, so at least one of them is not the right record.
        uint8 losers = (m.node[0] != record ? 1 : 0) | (m.node[1] != record ? 2 : 0);
        _decide(m, matchId, losers, Reason.Operator, voters);
    }

    function expire(uint256 matchId) external {
        Match storage m = _matches[matchId];
        if (m.phase != Phase.Verdict) revert WrongPhase(matchId, m.phase, Phase.Verdict);
        uint256 until = _until(m);
        if (block.timestamp < until) revert VerdictRunning(until);

        _decide(m, matchId, 0, Reason.Unresolved);
    }

    // ------------------------------------------------------------------ views

    function votes(uint256 matchId, bytes32 record) external view returns (address[] memory) {
        return _votes[matchId][record];
    }

    function voted(uint256 matchId, address verifier) external view returns (bool) {
        return _voted[matchId][verifier];
    }

    function verdictDigest(uint256 matchId, bytes32 record) external view returns (bytes32) {
        return _digest(_matches[matchId], matchId, record);
    }

    /// @dev The first instant at which no vote counts. NOTE: nobody owes a move in Verdict, so `tick` stands still.
    function _until(Match storage m) internal view returns (uint256) {
        return uint256(m.tick) + m.verdictPeriod;
    }

    function _digest(Match storage m, uint256 matchId, bytes32 record) private view returns (bytes32) {
        return
            _hashTypedDataV4(keccak256(abi.encode(VERDICT_TYPEHASH, matchId, m.end, uint32(m.index), record)));
    }
}
