// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {IJobs} from "../interfaces/IJobs.sol";
import {HearingPhase, Submission} from "../interfaces/IPanel.sol";
import {Rules} from "../interfaces/JobTypes.sol";
import {Hearings} from "./Hearings.sol";
import {KeptHearing, KeptVote} from "./KeptHearings.sol";
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

    mapping(uint256 hearingId => mapping(uint256 number => KeptVote)) private _kept;
    /// @dev The records that somebody has voted for, from one.
    mapping(uint256 hearingId => mapping(uint256 number => bytes32)) private _records;

    // ------------------------------------------------------------------ constructor

    constructor() EIP712("Assay Panel", "1") {}

    // ------------------------------------------------------------------ moves

    function attest(
        uint256 hearingId,
        Submission calldata submission,
        bytes32 record,
        bytes calldata signature
    ) external nonReentrant {
        KeptHearing storage h = _begin(hearingId, submission, HearingPhase.Voting);
        _before(h.until);
        address verifier =
            ECDSA.recover(verdictDigest(hearingId, submission.step, submission.node, record), signature);
        if (voted(hearingId, verifier)) revert AlreadyVoted(verifier);
        if (!IJobs(submission.jobs).isVerifier(submission.jobId, verifier)) revert NotVerifier(verifier);
        (Rules memory rules,) = _rules(submission);

        REGISTRY.hold(verifier);
        uint8 number = _numberOf(h, hearingId, record);
        if (number == 0) {
            number = ++h.records;
            _records[hearingId][number] = record;
        }
        _kept[hearingId][h.votes++] = KeptVote({verifier: verifier, record: number, lost: false});
        uint256 count = _signers(h, hearingId, number).length;
        emit Attested(hearingId, verifier, record, count);
        if (count < rules.threshold) return;

        h.verdict = number;
        h.phase = HearingPhase.Ruled;
        h.until = uint40(_time()) + rules.appealPeriod;
        emit VerdictReached(hearingId, record, _others(submission, record), h.until);
    }

    /// @dev Ends the hearing, and releases every bond that it holds.
    function _close(KeptHearing storage h, uint256 hearingId) internal {
        h.phase = HearingPhase.Done;
        for (uint256 i = 0; i < h.votes; ++i) {
            REGISTRY.release(_kept[hearingId][i].verifier);
        }
    }

    /// @dev Strikes a signer of the verdict, in whose place the last of them comes.
    function _strike(KeptHearing storage h, uint256 hearingId, address signer) internal {
        uint256 place = 0;
        uint256 last = 0;
        for (uint256 i = 0; i < h.votes; ++i) {
            KeptVote storage vote = _kept[hearingId][i];
            if (vote.lost || vote.record != h.verdict) continue;
            if (vote.verifier == signer) place = i;
            last = i;
        }
        _kept[hearingId][place].verifier = _kept[hearingId][last].verifier;
        // NOTE: the vote stays in the list, because the hearing still holds its verifier until the end.
        (_kept[hearingId][last].verifier, _kept[hearingId][last].lost) = (signer, true);
    }

    // ------------------------------------------------------------------ views

    function votes(uint256 hearingId, bytes32 record) external view returns (address[] memory) {
        KeptHearing storage h = _hearings[hearingId];
        return _signers(h, hearingId, _numberOf(h, hearingId, record));
    }

    /// @dev NOTE: a job has at most 32 verifiers.
    function voted(uint256 hearingId, address verifier) public view returns (bool) {
        for (uint256 i = 0; i < _hearings[hearingId].votes; ++i) {
            if (_kept[hearingId][i].verifier == verifier) return true;
        }
        return false;
    }

    function verdictDigest(uint256 hearingId, uint64 step, uint32 node, bytes32 record)
        public
        view
        returns (bytes32)
    {
        return _hashTypedDataV4(keccak256(abi.encode(VERDICT_TYPEHASH, hearingId, step, node, record)));
    }

    /// @dev Returns the record that the verdict calls right; zero without a verdict.
    function _verdict(KeptHearing storage h, uint256 hearingId) internal view returns (bytes32) {
        return _records[hearingId][h.verdict];
    }

    /// @dev Returns the signers of the verdict who have not lost their bonds for it.
    function _signers(KeptHearing storage h, uint256 hearingId) internal view returns (address[] memory) {
        return _signers(h, hearingId, h.verdict);
    }

    function _signers(KeptHearing storage h, uint256 hearingId, uint8 number)
        private
        view
        returns (address[] memory signers)
    {
        signers = new address[](h.votes);
        uint256 count = 0;
        for (uint256 i = 0; i < signers.length; ++i) {
            KeptVote storage vote = _kept[hearingId][i];
            if (vote.record == number && !vote.lost) signers[count++] = vote.verifier;
        }
        assembly ("memory-safe") {
            mstore(signers, count)
        }
    }

    /// @dev Returns the number of a record; zero if nobody has voted for it.
    function _numberOf(KeptHearing storage h, uint256 hearingId, bytes32 record)
        private
        view
        returns (uint8)
    {
        for (uint8 number = h.records; number != 0; --number) {
            if (_records[hearingId][number] == record) return number;
        }
        return 0;
    }
}
