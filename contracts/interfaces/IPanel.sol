// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Dispute} from "./ICourt.sol";
import {Record} from "./IReferee.sol";
import {ITimed} from "./ITimekeeper.sol";

/// @notice The phase of a hearing. The zero state is not a hearing.
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
    /// @dev The match has ended. Signers of the verdict may stand by it before they lose their bonds.
    Defence,
    /// @dev A signer stands by the verdict, in a trial of its own.
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

/// @notice The state of a hearing. Everything else is in the submission, which every move shows again.
struct Hearing {
    /// @dev The contract that submitted the operator and receives the result.
    address referee;
    /// @dev Voting, Ruled, Defence: the first instant at which the phase is over.
    uint56 until;
    HearingPhase phase;
    /// @dev Number of trials so far.
    uint8 trials;
    /// @dev Defence, Stand: the accuser, that is the side that the verdict calls wrong and the Court does not.
    uint8 side;
    /// @dev Trial: the sides that the verdict calls wrong, as bits; zero without an appeal.
    uint8 losers;
    uint256 matchId;
    /// @dev keccak256 of the submission's encoding; zero without verifiers, where no move shows the submission.
    bytes32 file;
    /// @dev The record that the verdict calls right; zero without a verdict.
    bytes32 verdict;
    /// @dev Once appealed: the spokesmen, the appeal's bond until the hearing is over, the job's appeal period, and the
    /// side that has appealed.
    address[2] players;
    uint256 bond;
    uint32 appealPeriod;
    uint8 appellant;
    /// @dev Stand: the verifier that stands by its verdict.
    address defendant;
}

/// @title IPanel
/// @notice Decides who is right about one operator: by the votes of verifiers, and by the Court in their place or on
/// appeal from them, as the job's rules say (docs/adjudication.md).
///
/// PROMISES
/// - A spokesman who is right, and plays, wins, whatever all verifiers sign.
/// - A verifier who signs the right record, and stands by it when it must, never loses its bond: a bond is lost only
///   after a trial that its verifier could have played itself.
/// - Every hearing ends: the match after at most the verdict period, the appeal period and two clocks; the bonds after
///   at most an appeal period more, and an appeal period and two clocks for each signer.
/// - A verifier who signs the right record and has to stand by it is paid half of the bond of the appeal against it.
/// - Ether in = ether out + burned: balance = credits + bonds of appeals whose hearings are not over. No owner, no
///   upgrade.
///
/// ASSUMPTIONS
/// - The submission of a referee is the operator that its match has come down to.
interface IPanel is ITimed {
    // ------------------------------------------------------------------ events

    /// @notice A hearing begins. If the job names verifiers, votes for the right record count before `until`.
    event Submitted(
        uint256 indexed hearingId,
        address indexed referee,
        uint256 indexed matchId,
        uint64 until,
        Submission submission,
        Dispute dispute
    );
    event Attested(uint256 indexed hearingId, address indexed verifier, bytes32 record, uint256 votes);
    /// @notice The verdict: `record` is the right one. It stands if nobody appeals before `until`.
    event VerdictReached(uint256 indexed hearingId, bytes32 record, uint8 losers, uint64 until);
    event Appealed(uint256 indexed hearingId, address indexed appellant);
    /// @notice A trial begins: `trialId` at the Court.
    event Tried(uint256 indexed hearingId, uint256 indexed trialId, address[2] players);
    /// @notice The match ends.
    event HearingDecided(uint256 indexed hearingId, uint8 losers);
    /// @notice The Court does not confirm the verdict. Its signers may stand by it before `until`.
    event Overruled(uint256 indexed hearingId, address indexed accuser, uint64 until);
    event Slashed(uint256 indexed hearingId, address indexed verifier, uint256 bond);
    /// @notice A signer stands by the verdict, and shows the record that the verdict calls right.
    event Stood(uint256 indexed hearingId, address indexed verifier, Record record);
    /// @notice A signer that stood by the verdict wins: no signer loses its bond, and it gets half of the appeal's.
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
    /// @notice The sender is not a spokesman that the verdict calls wrong.
    error NothingToAppeal(address sender);
    error WrongBond(uint256 have, uint256 want);
    error NotSigner(address sender);
    /// @notice The sender has lost its bond in another hearing.
    error NoBond(address sender);
    error AnotherRecord(bytes32 have, bytes32 want);
    error NotCourt(address sender);

    // ------------------------------------------------------------------ moves

    /// @notice Submits an operator, as the referee of the match that has come down to it.
    function hear(Submission calldata submission, Dispute calldata dispute) external;

    /// @notice Voting: counts a verifier's EIP-712 signature of `Verdict(hearingId, step, node, record)`, by any
    /// sender.
    function attest(
        uint256 hearingId,
        Submission calldata submission,
        bytes32 record,
        bytes calldata signature
    ) external;

    /// @notice Ruled: a spokesman that the verdict calls wrong has the operator tried. The value covers the job's
    /// stake, which is held until the hearing is over; the excess is credited. If a signer clears itself, the signer
    /// gets half of the bond. Otherwise the bond is returned or, if the appeal is lost, half of it goes to the other
    /// spokesman, unless that one is wrong, too.
    function appeal(uint256 hearingId, Submission calldata submission, Dispute calldata dispute)
        external
        payable;

    /// @notice Voting, after `until`: has the operator tried in place of a verdict.
    function escalate(uint256 hearingId, Submission calldata submission, Dispute calldata dispute) external;

    /// @notice Ruled, Defence, after `until`: draws the conclusion from silence. In Ruled the verdict stands; in
    /// Defence its signers lose their bonds.
    function proceed(uint256 hearingId, Submission calldata submission) external;

    /// @notice Defence: a signer that has its bond stands by the verdict, in a trial against the accuser.
    /// @param record The record that the verdict calls right.
    function stand(
        uint256 hearingId,
        Submission calldata submission,
        Dispute calldata dispute,
        Record calldata record
    ) external;

    // ------------------------------------------------------------------ views

    function getHearing(uint256 hearingId) external view returns (Hearing memory);

    /// @notice Returns the id of a hearing, by the referee that submitted it. Its last byte is zero.
    function hearingOf(address referee, uint256 matchId) external view returns (uint256);

    /// @notice Returns the verifiers that voted for a record, except those that lost their bonds for it.
    function votes(uint256 hearingId, bytes32 record) external view returns (address[] memory);

    function voted(uint256 hearingId, address verifier) external view returns (bool);

    /// @notice Returns the digest that a verifier signs.
    function verdictDigest(uint256 hearingId, uint64 step, uint32 node, bytes32 record)
        external
        view
        returns (bytes32);
}
