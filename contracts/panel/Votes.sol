// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {IJobs} from "../interfaces/IJobs.sol";
import {Hearing, HearingPhase, Submission} from "../interfaces/IPanel.sol";
import {Rules} from "../interfaces/JobTypes.sol";
import {Hearings} from "./Hearings.sol";
import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";

/// @title Votes
/// @notice The votes of a job's verifiers on the right record of the disputed operator.
///
/// INVARIANT: the bond of a verifier that has voted is held until the hearing is done.
abstract contract Votes is Hearings, EIP712 {
    // ------------------------------------------------------------------ storage

    bytes32 public constant VERDICT_TYPEHASH =
        keccak256("Verdict(uint256 hearingId,uint64 step,uint32 node,bytes32 record)");

    mapping(uint256 hearingId => mapping(bytes32 record => address[])) internal _votes;
    mapping(uint256 hearingId => address[]) private _voters;

    // ------------------------------------------------------------------ constructor

    constructor() EIP712("Assay Panel", "1") {}

    // ------------------------------------------------------------------ moves

    function attest(
        uint256 hearingId,
        Submission calldata submission,
        bytes32 record,
        bytes calldata signature
    ) external nonReentrant {
        Hearing storage h = _begin(hearingId, submission, HearingPhase.Voting);
        _before(h.until);
        address verifier =
            ECDSA.recover(verdictDigest(hearingId, submission.step, submission.node, record), signature);
        if (voted(hearingId, verifier)) revert AlreadyVoted(verifier);
        if (!IJobs(submission.jobs).isVerifier(submission.jobId, verifier)) revert NotVerifier(verifier);
        (Rules memory rules,) = _rules(submission);

        REGISTRY.hold(verifier);
        _voters[hearingId].push(verifier);
        address[] storage voters = _votes[hearingId][record];
        voters.push(verifier);
        emit Attested(hearingId, verifier, record, voters.length);
        if (voters.length < rules.threshold) return;

        h.verdict = record;
        h.phase = HearingPhase.Ruled;
        h.until = uint56(_time()) + rules.appealPeriod;
        emit VerdictReached(hearingId, record, _others(submission, record), h.until);
    }

    /// @dev Ends the hearing, and releases every bond that it holds.
    function _close(Hearing storage h, uint256 hearingId) internal {
        h.phase = HearingPhase.Done;
        address[] storage voters = _voters[hearingId];
        for (uint256 i = 0; i < voters.length; ++i) {
            REGISTRY.release(voters[i]);
        }
    }

    // ------------------------------------------------------------------ views

    function votes(uint256 hearingId, bytes32 record) external view returns (address[] memory) {
        return _votes[hearingId][record];
    }

    /// @dev NOTE: a job has at most 32 verifiers.
    function voted(uint256 hearingId, address verifier) public view returns (bool) {
        return _contains(_voters[hearingId], verifier);
    }

    function verdictDigest(uint256 hearingId, uint64 step, uint32 node, bytes32 record)
        public
        view
        returns (bytes32)
    {
        return _hashTypedDataV4(keccak256(abi.encode(VERDICT_TYPEHASH, hearingId, step, node, record)));
    }

    function _contains(address[] storage list, address wanted) internal view returns (bool) {
        for (uint256 i = 0; i < list.length; ++i) {
            if (list[i] == wanted) return true;
        }
        return false;
    }
}
