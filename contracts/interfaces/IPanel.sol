// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Dispute} from "./ICourt.sol";
import {Record} from "./IReferee.sol";
import {ITimed} from "./ITimekeeper.sol";

/// @notice Where a hearing stands. The zero state is no hearing.
///
///     verifiers       Voting ──threshold──▶ Ruled ──nobody appeals──▶ Done
///                       └──no threshold──▶ Trial ◀──appeal──┘
///                                            └──▶ Done, or ──verdict overruled──▶ Defence ◀──▶ Stand ──▶ Done
///     no verifiers    Trial ──▶ Done
enum HearingPhase {
    None,
    Voting,
    Ruled,
    Trial,
    /// @dev The match has ended. The verdict's signers may stand by it before they lose their bonds.
    Defence,
    /// @dev One of them does, in a trial of its own.
    Stand,
    Done
}

/// @notice The operator that a match has come down to.
struct Submission {
    uint256 matchId;
    address jobs;
    uint256 jobId;
    uint64 step;
    uint32 node;
    /// @dev The spokesmen, and the hashes of their records.
    address[2] players;
    bytes32[2] records;
    /// @dev keccak256 of the encoding of the `Dispute`.
    bytes32 dispute;
}

/// @notice The state of a hearing. What is not in it is in the submission, which every move shows again.
struct Hearing {
    /// @dev Who is told the result.
    address referee;
    /// @dev Voting, Ruled, Defence: the first instant at which it is over.
    uint56 until;
    HearingPhase phase;
    /// @dev How many trials there have been.
    uint8 trials;
    /// @dev Defence, Stand: the accuser, the side that the verdict called wrong and the court did not.
    uint8 side;
    /// @dev Trial: the sides that the verdict calls wrong, as bits; zero without an appeal.
    uint8 losers;
    uint256 matchId;
    /// @dev keccak256 of the submission's encoding; zero where no move would show it, without verifiers.
    bytes32 file;
    /// @dev The record that the verdict calls right; zero without a verdict.
    bytes32 verdict;
    /// @dev Once appealed: the spokesmen, the bond until the hearing is over, the job's appeal period, and the side that has
    /// appealed.
    address[2] players;
    uint256 bond;
    uint32 appealPeriod;
    uint8 appellant;
    /// @dev Stand: the verifier who stands by its verdict.
    address defendant;
}

/// @title IPanel
/// @notice Who is right about one operator: verifiers by their votes, the Court in their place or on appeal from them, as
/// the job says (docs/adjudication.md).
///
/// PROMISES
/// - A spokesman who is right, and plays, wins, whatever all verifiers say.
/// - A verifier who signs what is right, and stands by it when it must, never loses its bond: a bond is lost only after a
///   trial that its verifier could have played itself.
/// - Every hearing ends: the match after at most the verdict and appeal periods and two clocks, bonds after as much again
///   for each signer.
/// - Who signed what is right and has to stand by it is paid for it: half of the bond of the appeal against it.
/// - Ether in = ether out + burned: balance = credits + bonds of appeals whose hearings are not over. No owner, no upgrade.
///
/// ASSUMPTIONS
/// - What a referee submits is what its match has come to.
interface IPanel is ITimed {
    // ------------------------------------------------------------------ events

    /// @notice A hearing began. If the job names verifiers, votes for the right record count before `until`.
    event Submitted(
        uint256 indexed hearingId,
        address indexed referee,
        uint256 indexed matchId,
        uint64 until,
        Submission submission,
        Dispute dispute
    );
    event Attested(uint256 indexed hearingId, address indexed verifier, bytes32 record, uint256 votes);
    /// @notice The verdict is that `record` is the right one. It stands if nobody appeals before `until`.
    event VerdictReached(uint256 indexed hearingId, bytes32 record, uint8 losers, uint64 until);
    event Appealed(uint256 indexed hearingId, address indexed appellant);
    /// @notice A trial began: `trialId` at the Court.
    event Tried(uint256 indexed hearingId, uint256 indexed trialId, address[2] players);
    /// @notice The match has ended.
    event HearingDecided(uint256 indexed hearingId, uint8 losers);
    /// @notice The court did not follow the verdict. Its signers may stand by it before `until`.
    event Overruled(uint256 indexed hearingId, address indexed accuser, uint64 until);
    event Slashed(uint256 indexed hearingId, address indexed verifier, uint256 bond);
    /// @notice A signer stands by the verdict, and shows the record that it calls right.
    event Stood(uint256 indexed hearingId, address indexed verifier, Record record);
    /// @notice A signer stood by the verdict and won: no signer's bond is lost, and half of the appeal's is its.
    event Cleared(uint256 indexed hearingId, address indexed verifier);

    // ------------------------------------------------------------------ errors

    error AlreadyHeard(uint256 hearingId);
    error WrongHearingPhase(uint256 hearingId, HearingPhase have, HearingPhase want);
    error PeriodOver(uint256 until);
    error PeriodRunning(uint256 until);
    error AnotherSubmission(bytes32 have, bytes32 want);
    error AnotherDispute(bytes32 have, bytes32 want);
    error NotVerifier(address signer);
    error AlreadyVoted(address verifier);
    /// @notice The sender is not a spokesman whom the verdict calls wrong.
    error NothingToAppeal(address sender);
    error WrongBond(uint256 have, uint256 want);
    error NotSigner(address sender);
    /// @notice The sender has lost its bond, in another hearing.
    error NoBond(address sender);
    error AnotherRecord(bytes32 have, bytes32 want);
    error NotCourt(address sender);

    // ------------------------------------------------------------------ moves

    /// @notice The sender, a referee, submits the operator that a match of its has come down to.
    function hear(Submission calldata submission, Dispute calldata dispute) external;

    /// @notice Voting: a verifier's EIP-712 signature of `Verdict(hearingId, step, node, record)`, whoever brings it.
    function attest(
        uint256 hearingId,
        Submission calldata submission,
        bytes32 record,
        bytes calldata signature
    ) external;

    /// @notice Ruled: a spokesman whom the verdict calls wrong has the operator tried; the value is the job's stake,
    /// exactly. It is held until the hearing is over. If a signer clears itself half of it is the signer's; else it goes back, or
    /// half of it, if the appeal is lost, to the other spokesman, unless he is wrong, too.
    function appeal(uint256 hearingId, Submission calldata submission, Dispute calldata dispute)
        external
        payable;

    /// @notice Voting, once the period is over: the operator is tried in place of a verdict.
    function escalate(uint256 hearingId, Submission calldata submission, Dispute calldata dispute) external;

    /// @notice Ruled, Defence, once the period is over: what follows from silence. The verdict stands; its signers lose their
    /// bonds.
    function proceed(uint256 hearingId, Submission calldata submission) external;

    /// @notice Defence: a signer who has its bond stands by the verdict, in a trial against the accuser.
    /// @param record What the verdict calls right.
    function stand(
        uint256 hearingId,
        Submission calldata submission,
        Dispute calldata dispute,
        Record calldata record
    ) external;

    // ------------------------------------------------------------------ views

    function getHearing(uint256 hearingId) external view returns (Hearing memory);

    /// @notice The id of a hearing, by who submitted it. Its last byte is zero.
    function hearingOf(address referee, uint256 matchId) external view returns (uint256);

    /// @notice The verifiers that voted for a record, without those that have lost their bonds for it.
    function votes(uint256 hearingId, bytes32 record) external view returns (address[] memory);

    function voted(uint256 hearingId, address verifier) external view returns (bool);

    /// @notice The digest a verifier signs.
    function verdictDigest(uint256 hearingId, uint64 step, uint32 node, bytes32 record)
        external
        view
        returns (bytes32);
}
