// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {IEscrow} from "./IEscrow.sol";
import {Reason} from "./IReferee.sol";
import {ITimed} from "./ITimekeeper.sol";
import {
    Claim,
    Conditions,
    Group,
    Job,
    JobPhase,
    KeptClaim,
    KeptJob,
    MAX_URI,
    PAGE,
    Program,
    Rules,
    StakedClaim,
    Terms,
    Trainer
} from "./JobTypes.sol";

/// @title IJobs
/// @notice Jobs with escrow, staked claims, and the pairing of claims that differ.
///
/// PROMISES
/// - If the referee is sound and one honest party claims and plays, the accepted root is the right one and that party
///   loses nothing.
/// - Ether in = ether out + burned: at all times balance = credits + stakes at risk + rewards in escrow.
/// - A payment never blocks progress: money is credited, and drawn by whom it belongs to.
/// - Anybody finds a place: claims are not limited in number, and no move costs more gas because there are many.
/// - Delay is dear: new roots come in the challenge phase only, each dearer than the one before; all groups play at once, so that
///   the number of matches one after the other is logarithmic in the number of roots; and each further claim of a root costs
///   twice what the one before did (docs/economics.md).
/// - No owner, no upgrade.
///
/// ASSUMPTIONS
/// - SAFETY: the referee is named by the client. A malicious one can hurt its own job (its stakes and reward) and
///   nothing else; parties join only jobs with a referee whose code they know.
/// - A commitment's salt has enough entropy, and trainers wait for confirmations before they stake.
interface IJobs is IEscrow, ITimed {
    // ------------------------------------------------------------------ events

    event Posted(
        uint256 indexed jobId,
        address indexed client,
        address indexed referee,
        bytes32 programHash,
        bytes32 programFile,
        uint256 reward,
        uint256 stake,
        string uri
    );
    event Joined(uint256 indexed jobId, address indexed trainer);
    event Committed(uint256 indexed jobId, address indexed trainer, bytes32 commitment);
    event ChallengeCommitted(uint256 indexed jobId, address indexed challenger, bytes32 commitment);
    event PhaseEnds(uint256 indexed jobId, uint64 commitEnd, uint64 revealEnd, uint64 challengeEnd);
    event Claimed(
        uint256 indexed jobId,
        address indexed owner,
        uint32 claim,
        uint32 group,
        bytes32 root,
        bytes32 last,
        uint256 stake,
        string uri
    );
    event LogsRevealed(uint256 indexed jobId, bytes32 logs);
    event LogsWithheld(uint256 indexed jobId, address indexed finder);
    event Waiting(uint256 indexed jobId, uint32 group);
    event Paired(uint256 indexed jobId, uint256 indexed matchId, uint32 group0, uint32 group1);
    event Resolved(uint256 indexed jobId, uint256 indexed matchId, uint8 losers, Reason reason);
    event ClaimLost(uint256 indexed jobId, address indexed owner, uint32 claim);
    /// @notice All its members have lost. Its root can be claimed again until then, and as long as the challenge phase lasts.
    event GroupDied(uint256 indexed jobId, uint32 group, uint64 until);
    event Accepted(uint256 indexed jobId, bytes32 root, bytes32 last);
    event Unclaimed(uint256 indexed jobId);
    event Voided(uint256 indexed jobId);
    /// @notice The job is over, and what the claim gets is its owner's credit.
    event Collected(uint256 indexed jobId, address indexed owner, uint32 claim, uint256 amount);

    // ------------------------------------------------------------------ errors

    error BadReferee(address referee);
    error BadSlots(uint256 slots);
    /// @notice A mode with rounding logs has one trainer: another could not know the logs of the first.
    error OneSlotOnly(uint256 slots);
    error StakeTooSmall(uint256 have, uint256 want);
    error StakeTooLarge(uint256 have, uint256 most);
    /// @notice The bounds on what a unit of gas counts for must be from `min` to `max`, the lower one first.
    error BadFees(uint256 low, uint256 high, uint256 min, uint256 max);
    error BadPeriod(uint256 have, uint256 min, uint256 max);
    error UriTooLong(uint256 length);
    error BadVerifierCount(uint256 count);
    error BadThreshold(uint256 threshold, uint256 verifiers);
    error VerifierTwice(address verifier);
    /// @notice Its bond does not answer to the panel that the job's referee submits to.
    error VerifierNotRegistered(address verifier, address panel);
    /// @notice Half of its bond would not pay for a trial at what gas costs now.
    error BondTooSmall(address verifier, uint256 have, uint256 want);
    error WrongPhase(uint256 jobId, JobPhase have, JobPhase want);
    error WrongStake(uint256 have, uint256 want);
    error NoFreeSlot(uint256 jobId);
    error AlreadyJoined(uint256 jobId, address trainer);
    error NotTrainer(uint256 jobId, address sender);
    error AlreadyCommitted(uint256 jobId, address trainer);
    error EmptyCommitment();
    error NothingCommitted(uint256 jobId, address trainer);
    error WrongCommitment(bytes32 have, bytes32 want);
    /// @notice What a challenge was committed to with is too young until that second of the chain.
    error TooSoon(uint256 from);
    /// @notice A commitment could not grow old in the shortest challenge phase.
    error BadCommitAge(uint256 have, uint256 min, uint256 max);
    /// @notice The mode of this job has no rounding logs.
    error UnexpectedLogs(bytes32 logs);
    /// @notice No trainer has revealed a claim, so there is nothing to challenge.
    error NothingRevealed(uint256 jobId);
    error AlreadyClaimed(uint256 jobId, address owner);
    /// @notice The challenge phase is over: a root is claimed now only if a claim of it was lost, and as long as another stands or
    /// its group's `until`; and of a job whose logs are withheld none is.
    error RootClosed(bytes32 root);
    error MatchesOpen(uint256 jobId, uint256 count);
    /// @notice Until then somebody may claim the root of a dead group, or request something of one that challengers claim.
    error ReclaimsOpen(uint256 until);
    error JobRuns(uint256 jobId);
    error NoSuchClaim(uint256 jobId, uint256 claim);
    error LostClaim(uint256 jobId, uint256 claim);
    error AlreadyCollected(uint256 jobId, uint256 claim);
    error NotReferee(address sender, address referee);
    error NoSuchMatch(uint256 jobId, uint256 matchId);
    error MatchTaken(uint256 jobId, uint256 matchId);
    error BadResult(uint8 losers);
    error NotDataAvailability(address sender);
    /// @notice What is requested of a root is lost when its match is over.
    error GroupPlays(uint256 jobId, bytes32 root);
    error RequestsOpen(uint256 jobId, uint256 count);

    // ------------------------------------------------------------------ moves

    /// @notice Posts a job; the value is the reward.
    function post(Terms calldata terms) external payable returns (uint256 jobId);

    /// @notice Training: takes a slot; the value covers `stakeOf` the job, and what is more is credited.
    function join(uint256 jobId) external payable;

    /// @notice Training: a slot holder commits, once. After the last one the phase lasts for the watch period.
    function commit(uint256 jobId, bytes32 commitment) external;

    /// @notice Reveal: a slot holder shows what it committed to. The last one ends the phase. The value and what the slot took cover
    /// `stakeOf` the job, which may have risen; what is more of the value is credited.
    /// @param logs The root of the run's rounding logs; zero in a mode that has none.
    function reveal(uint256 jobId, Claim calldata claim, bytes32 logs, bytes32 salt) external payable;

    /// @notice Anybody commits to a claim, at any time; again replaces what was there.
    function commitChallenge(uint256 jobId, bytes32 commitment) external;

    /// @notice Challenge, Closing: anybody without a claim in this job stakes one that it has committed to `COMMIT_AGE` seconds ago
    /// or earlier; the value covers `priceOf` the root, and what is more is credited. Challenge: of any root. Closing: of a root of which a claim was lost, as
    /// long as another stands or its group's `until`. Of a root that somebody claims it speaks after all who have claimed it before.
    /// @dev Whoever sees a claim on its way into a block can commit to it then at the earliest, and has to wait for as long as
    /// that: the claim has all blocks of that time to get in, so nobody takes another's.
    function challenge(uint256 jobId, Claim calldata claim, bytes32 salt) external payable;

    /// @notice The job's referee ends a match.
    /// @param losers Bit `s`: side `s` lost. At least one did.
    /// @param deciders The verifiers whose verdict decided, if verifiers did.
    function resolve(uint256 jobId, uint256 matchId, uint8 losers, Reason reason, address[] calldata deciders)
        external;

    /// @notice Challenge: something of this job was requested, and may be answered until then. Of logs the contract of requests says
    /// from when extensions count: the first request, later by the time in which pages were open since, at most a minute and the
    /// 64th part of a verdict period for each; of claimed roots it says zero.
    /// @dev The challenge phase lasts at least a challenge period longer than the answer may take, but no request makes it last longer
    /// than four times a verdict and a challenge period, and 61,440 seconds, counted from that start, and from a challenge period
    /// after the reveals at the earliest. SAFETY: of all roots together, because each new one would put the end off anew.
    /// Closing: of a root before its group's `until`. That extends nothing.
    function extend(uint256 jobId, bytes32 root, uint64 start, uint64 until) external;

    /// @notice What was requested nobody has published. Of a claimed root: all who claim it lose their stakes. Of the run's logs:
    /// nobody can be shown right, so nothing will be accepted and the job ends void; the trainer loses its stake, unless it
    /// loses it in the match that it is in, or has lost it before. Half of what is lost is the finder's. The game among the others goes on.
    function forfeit(uint256 jobId, bytes32 root, bool logs, address finder) external;

    /// @notice Closing, no match and no request open, no root to be claimed again: accepts the root that is left. A job whose logs
    /// are withheld ends void.
    function finalize(uint256 jobId) external;

    /// @notice The job is over: credits the owner of a claim that is not lost with its stake, and with its share of the reward. Anybody
    /// may call it, once for each claim.
    function collect(uint256 jobId, uint32 claim) external;

    // ------------------------------------------------------------------ views

    /// @notice Seconds of the chain, several blocks: how old a commitment must be for a challenge.
    function COMMIT_AGE() external view returns (uint32);

    /// @notice Number of jobs; they are numbered from 1.
    function jobCount() external view returns (uint256);

    /// @notice A job: its phase, the slot holders (at most 16), the first claims and groups (at most `PAGE` each), both by
    /// number. No job has the phase None.
    /// @dev NOTE: one call, because two calls to a node that follows the chain may see two states.
    function viewOf(uint256 jobId)
        external
        view
        returns (
            JobPhase phase,
            Job memory job,
            Trainer[] memory trainers,
            StakedClaim[] memory claims,
            Group[] memory groups
        );

    /// @notice The claims from that number on, at most `PAGE`.
    function claimsFrom(uint256 jobId, uint256 from) external view returns (StakedClaim[] memory);

    /// @notice The groups from that number on, at most `PAGE`.
    function groupsFrom(uint256 jobId, uint256 from) external view returns (Group[] memory);

    /// @notice What a unit of gas counts for in a job now, in wei: twice what the chain's block asks, because it may rise and
    /// blocks want more, within the bounds that the job's terms state.
    function feeOf(uint256 jobId) external view returns (uint256);

    /// @notice What a slot takes now, in wei, and the bond of an appeal: the stake of the job's terms, or what makes half of it
    /// pay for the worst dispute, if that is more.
    function stakeOf(uint256 jobId) external view returns (uint256);

    /// @notice What a challenger's claim of this root has to stake now, in wei, if `S` is `stakeOf` the job. Of a new root, the
    /// `n`-th from zero that challengers bring: `S * (16 + n) / 16`. Of a root that was claimed before, as the `r`-th such claim
    /// from one: `S * 2^r`.
    function priceOf(uint256 jobId, bytes32 root) external view returns (uint256);

    /// @notice Words of storage, from which the Notary makes what is shown.
    function wordsAt(bytes32 from, uint256 count) external view returns (bytes32[] memory);

    /// @notice The account whose code is the encoding of a job's terms.
    function fileOf(uint256 jobId) external view returns (address);

    function phaseOf(uint256 jobId) external view returns (JobPhase);

    function programOf(uint256 jobId) external view returns (Program memory);

    /// @notice The root of the logs of the job's run (see Job); zero until it is revealed.
    function logsOf(uint256 jobId) external view returns (bytes32);

    /// @notice The root that was accepted; zero if none was.
    function acceptedRoot(uint256 jobId) external view returns (bytes32);

    /// @notice How a job's operators are judged, and the bond of an appeal: `stakeOf` the job.
    function rulesOf(uint256 jobId) external view returns (Rules memory rules, uint256 stake);

    /// @notice Whether somebody who has not lost claims this root, and in which of its lives, from one, the root then is: another
    /// begins when it is claimed after all who had claimed it lost.
    function standing(uint256 jobId, bytes32 root) external view returns (uint32 life, bool claimed);

    function isVerifier(uint256 jobId, address account) external view returns (bool);

    /// @notice The two groups of a match that is open.
    function pairOf(uint256 jobId, uint256 matchId)
        external
        view
        returns (bool open, uint32 group0, uint32 group1);

    /// @notice What an account has committed to challenge with, and when; zero if it has not.
    function challengeOf(uint256 jobId, address account)
        external
        view
        returns (bytes32 commitment, uint64 committedAt);

    /// @notice What a sender would commit to. A challenger has no logs to commit to: zero.
    function commitmentOf(
        uint256 jobId,
        address sender,
        bytes32 root,
        bytes32 last,
        bytes32 logs,
        bytes32 salt
    ) external view returns (bytes32);
}
