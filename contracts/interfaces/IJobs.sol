// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {IEscrow} from "./IEscrow.sol";
import {Reason} from "./IReferee.sol";
import {ITimed} from "./ITimekeeper.sol";
import {
    Claim,
    Group,
    Job,
    JobPhase,
    MAX_URI,
    PAGE,
    Program,
    Refutation,
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
/// - A payment never blocks progress: money is credited, and its owner withdraws it.
/// - Anybody finds a place: the number of claims is not limited, and no move costs more gas because there are many.
/// - Delay is expensive: new roots come in the challenge phase only, each dearer than the one before; all groups play
///   at once, so that the number of consecutive matches is logarithmic in the number of roots; and each further claim
///   of a root costs twice the one before (docs/economics.md).
/// - No owner, no upgrade.
///
/// ASSUMPTIONS
/// - SAFETY: the client names the referee. A malicious one harms only its own job (stakes and reward); parties join
///   only jobs whose referee's code they know.
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
    event Resigned(uint256 indexed jobId, address indexed trainer);
    event Committed(uint256 indexed jobId, address indexed trainer, bytes32 commitment);
    /// @notice A commitment was made for the first time, by whoever it is of.
    event ChallengeCommitted(uint256 indexed jobId, address indexed challenger, bytes32 commitment);
    event PhaseEnds(uint256 indexed jobId, uint64 commitEnd, uint64 revealEnd, uint64 challengeEnd);
    /// @notice A claim or a refutation, the first one of a new group or behind the members of an old one. Only here are its
    /// URI and its last checkpoint; zero if it is a refutation with the last checkpoint of the root that it refutes.
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
    /// @notice Follows `Claimed` of the refutation. The path that leads from `claimed` to the refuted group's root leads
    /// from `computed` to that of the refutation's group.
    event Refuted(
        uint256 indexed jobId,
        uint32 indexed group,
        uint32 indexed refuted,
        uint64 interval,
        bytes32 claimed,
        bytes32 computed
    );
    event LogsRevealed(uint256 indexed jobId, bytes32 logs);
    event LogsWithheld(uint256 indexed jobId, address indexed finder);
    event Waiting(uint256 indexed jobId, uint32 group);
    event Paired(uint256 indexed jobId, uint256 indexed matchId, uint32 group0, uint32 group1);
    event Resolved(uint256 indexed jobId, uint256 indexed matchId, uint8 losers, Reason reason);
    event ClaimLost(uint256 indexed jobId, address indexed owner, uint32 claim);
    /// @notice All claims of the group are lost. Its root can be claimed again before `until` and in Challenge.
    event GroupDied(uint256 indexed jobId, uint32 group, uint64 until);
    event Accepted(uint256 indexed jobId, bytes32 root);
    event Unclaimed(uint256 indexed jobId);
    event Voided(uint256 indexed jobId);
    /// @notice The job is over, and the claim's owner is credited with `amount`, in wei.
    event Collected(uint256 indexed jobId, address indexed owner, uint32 claim, uint256 amount);

    // ------------------------------------------------------------------ errors

    error BadReferee(address referee);
    error BadSlots(uint256 slots);
    /// @notice A mode with rounding logs has one trainer: a second one could not know the logs of the first.
    error OneSlotOnly(uint256 slots);
    error StakeTooSmall(uint256 have, uint256 want);
    error StakeTooLarge(uint256 have, uint256 most);
    /// @notice The bounds on the price of a unit of gas must be from `min` to `max`, in wei, the lower one first.
    error BadFees(uint256 low, uint256 high, uint256 min, uint256 max);
    error BadPeriod(uint256 have, uint256 min, uint256 max);
    error UriTooLong(uint256 length);
    error BadVerifierCount(uint256 count);
    error BadThreshold(uint256 threshold, uint256 verifiers);
    error VerifierTwice(address verifier);
    /// @notice The verifier is not registered with the panel of the job's referee, or is leaving.
    error VerifierNotRegistered(address verifier, address panel);
    /// @notice Half of the verifier's bond would not pay for a trial at the present price of gas.
    error BondTooSmall(address verifier, uint256 have, uint256 want);
    error WrongPhase(uint256 jobId, JobPhase have, JobPhase want);
    error WrongStake(uint256 have, uint256 want);
    error NoFreeSlot(uint256 jobId);
    error AlreadyJoined(uint256 jobId, address trainer);
    error NotTrainer(uint256 jobId, address sender);
    error AlreadyCommitted(uint256 jobId, address trainer);
    error EmptyCommitment();
    /// @notice The sender has not committed to this, or to nothing at all.
    error NothingCommitted(uint256 jobId, address sender);
    /// @notice What a slot holder reveals is not what it has committed to.
    error WrongCommitment(bytes32 have, bytes32 want);
    /// @notice The sender's commitment is too young for a challenge until the second `from` of the chain.
    error TooSoon(uint256 from);
    /// @notice A commitment could not reach this age within the shortest challenge phase, or the age is zero.
    error BadCommitAge(uint256 have, uint256 min, uint256 max);
    /// @notice The mode of this job has no rounding logs.
    error UnexpectedLogs(bytes32 logs);
    /// @notice No trainer has revealed a claim, so there is nothing to challenge.
    error NothingRevealed(uint256 jobId);
    error AlreadyClaimed(uint256 jobId, address owner);
    /// @notice The challenge phase is over. A root can now be claimed only if a claim of it was lost, and another claim
    /// of it stands or its group's `until` is to come; and not in a job whose logs are withheld.
    error RootClosed(bytes32 root);
    /// @notice No claim of this root lives, or the job's logs are withheld.
    error NothingToRefute(uint256 jobId, bytes32 root);
    /// @notice The run tree has `count` leaves, numbered from zero.
    error NoSuchInterval(uint256 interval, uint256 count);
    /// @notice A refutation must differ from what it refutes.
    error SameCheckpoint(bytes32 checkpoint);
    error MatchesOpen(uint256 jobId, uint256 count);
    /// @notice Before `until` the root of a dead group may be claimed again, data of a challenger's root requested, or a
    /// root refuted of which a refutation has lost.
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
    /// @notice The group plays a match: its claims can lose by a request only after it.
    error GroupPlays(uint256 jobId, bytes32 root);
    error RequestsOpen(uint256 jobId, uint256 count);

    // ------------------------------------------------------------------ moves

    /// @notice Posts a job; the value is the reward.
    function post(Terms calldata terms) external payable returns (uint256 jobId);

    /// @notice Training: takes a slot. The value covers `stakeOf` the job; the excess is credited.
    function join(uint256 jobId) external payable;

    /// @notice Training: a slot holder that has not committed gives its slot back, which is free again. The stake is
    /// credited but for a 32nd, which is burned.
    function resign(uint256 jobId) external;

    /// @notice Training: a slot holder commits, once. After the last commitment the phase lasts for the watch period.
    function commit(uint256 jobId, bytes32 commitment) external;

    /// @notice Reveal: opens a slot holder's commitment. The last one ends the phase. The value and the slot's stake
    /// together cover `stakeOf` the job, which may have risen; the excess of the value is credited.
    /// @param logs The root of the run's rounding logs; zero in a mode without logs.
    function reveal(uint256 jobId, Claim calldata claim, bytes32 logs, bytes32 salt) external payable;

    /// @notice Commits to a claim for a challenge, or to a refutation, at any time. Any number of commitments stand side by
    /// side. Made again, by whoever it is, a commitment stays as it is.
    function commitChallenge(uint256 jobId, bytes32 commitment) external;

    /// @notice Challenge, Closing: stakes a claim that the sender, who has no claim in this job, committed to at least
    /// `COMMIT_AGE` seconds ago. The value covers `priceOf` the root; the excess is credited. In Challenge: any root.
    /// In Closing: a root that has lost a claim, while another claim of it stands or before its group's `until`. In a
    /// living group the claim speaks after all earlier ones.
    /// @dev A party that copies a claim from a pending transaction can commit to it then at the earliest and has to
    /// wait for `COMMIT_AGE`: the original has all blocks of that time to get in, so nobody takes another's claim.
    function challenge(uint256 jobId, Claim calldata claim, bytes32 salt) external payable;

    /// @notice Challenge; in Closing before the `until` or `refutableUntil` of the root's group: stakes that one checkpoint
    /// of a claimed run does not follow from the one before it in the same run, and that another one does. The sender,
    /// who may have other claims and refutations in this job, committed to this one at least `COMMIT_AGE` seconds ago.
    /// The value covers `refutationPriceOf` the root; the excess is credited. The match begins at once if the root's
    /// group waits, else after its match and the refutations before this one.
    /// @dev The refutation plays the root's spokesmen until it loses or no claim of the root is left. It is never
    /// accepted. One that loses opens a challenge period in which the root can be refuted. If no claim at all is left,
    /// there is a new challenge period for the job, once.
    function refute(uint256 jobId, Refutation calldata refutation, bytes32 salt) external payable;

    /// @notice Ends a match. The job's referee only.
    /// @param losers Bit `s`: side `s` lost. At least one did.
    /// @param deciders The verifiers whose verdict decided, if a verdict did.
    function resolve(uint256 jobId, uint256 matchId, uint8 losers, Reason reason, address[] calldata deciders)
        external;

    /// @notice Extends the challenge phase, because data was requested that may be answered until `until`. In Closing,
    /// before the `until` of the root's group, it extends nothing. The DataAvailability contract only.
    /// @param start For logs: the instant from which extensions count, the first request plus the time in which many
    /// pages were open, at most a minute and a 64th of a verdict period for each. For claimed roots zero.
    /// @dev The challenge phase lasts at least until a challenge period after `until`, but requests extend it to at
    /// most four times (verdict period + challenge period) and 61,440 seconds after the later of `start` and the end of
    /// Reveal plus a challenge period, or the end of the period that a refutation has opened. SAFETY: the bound holds
    /// for all roots together, or each new root would put it off again.
    function extend(uint256 jobId, bytes32 root, uint64 start, uint64 until) external;

    /// @notice Takes the stakes behind withheld data. A claimed root: all its claims lose their stakes. The run's logs:
    /// nobody can be shown right, so nothing will be accepted and the job ends void; the trainer loses its stake,
    /// unless it loses it in its running match, or has lost it before. Half of the stakes goes to the finder. Other
    /// claims play on. The DataAvailability contract only.
    function forfeit(uint256 jobId, bytes32 root, bool logs, address finder) external;

    /// @notice Closing, with no match open, no request open about the remaining root or the logs, and no root that can
    /// be claimed again, or refuted because a refutation of it has lost: accepts the remaining root. A job whose logs are withheld ends void.
    function finalize(uint256 jobId) external;

    /// @notice After the job: credits the owner of a claim that is not lost with its stake and its share of the reward.
    /// Anybody may call it, once for each claim.
    function collect(uint256 jobId, uint32 claim) external;

    // ------------------------------------------------------------------ views

    /// @notice The least age of a commitment for a challenge, in seconds of the chain: several blocks.
    function COMMIT_AGE() external view returns (uint32);

    /// @notice Returns the number of jobs; they are numbered from 1.
    function jobCount() external view returns (uint256);

    /// @notice Returns a job: its phase, the slot holders (at most 16), the first claims and groups (at most `PAGE`
    /// each), in the order of their numbers. A job that does not exist has the phase None.
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

    /// @notice Returns the claims from number `from` on, at most `PAGE`.
    function claimsFrom(uint256 jobId, uint256 from) external view returns (StakedClaim[] memory);

    /// @notice Returns the groups from number `from` on, at most `PAGE`.
    function groupsFrom(uint256 jobId, uint256 from) external view returns (Group[] memory);

    /// @notice Returns the price of a unit of gas in a job now, in wei: twice the base fee of the chain's block,
    /// because the fee may rise and blocks want more, within the bounds of the job's terms.
    function feeOf(uint256 jobId) external view returns (uint256);

    /// @notice Returns the stake of a slot now, in wei, which is also the bond of an appeal: the stake of the job's
    /// terms, or `STAKE_GAS` units of gas, of which half pays for the worst dispute, if they are worth more.
    function stakeOf(uint256 jobId) external view returns (uint256);

    /// @notice Returns the stake of a challenger's claim of this root now, in wei, with `S` as `stakeOf` the job. A new
    /// root, the `n`-th from zero that challengers bring: `S * (16 + n) / 16`. A root that was claimed before, as the
    /// `r`-th challenger, from one, that claims this root after it was founded: `S * 2^r`.
    function priceOf(uint256 jobId, bytes32 root) external view returns (uint256);

    /// @notice Returns the stake of a refutation of this root now, in wei: `stakeOf` the job times two for each
    /// refutation of it so far.
    function refutationPriceOf(uint256 jobId, bytes32 root) external view returns (uint256);

    /// @notice Returns words of storage, which the Notary decodes for the views.
    function wordsAt(bytes32 from, uint256 count) external view returns (bytes32[] memory);

    /// @notice Returns the account whose code has a job's program, verifiers and addresses: see `TermsFile`.
    function fileOf(uint256 jobId) external view returns (address);

    function phaseOf(uint256 jobId) external view returns (JobPhase);

    function programOf(uint256 jobId) external view returns (Program memory);

    /// @notice Returns the root of the logs of the job's run (see Job); zero until it is revealed.
    function logsOf(uint256 jobId) external view returns (bytes32);

    /// @notice Returns the accepted root; zero if there is none.
    function acceptedRoot(uint256 jobId) external view returns (bytes32);

    /// @notice Returns how a job's operators are judged, and the bond of an appeal: `stakeOf` the job.
    function rulesOf(uint256 jobId) external view returns (Rules memory rules, uint256 stake);

    /// @notice Returns whether this root has a claim that is not lost, and which of the root's lives it is in, counted
    /// from one: a new life begins when the root is claimed after all its claims were lost.
    function standing(uint256 jobId, bytes32 root) external view returns (uint32 life, bool claimed);

    function isVerifier(uint256 jobId, address account) external view returns (bool);

    /// @notice Returns the two groups of a match, whose numbers are the last bits of its id, and whether they play each
    /// other now. NOTE: of an earlier match of the same two groups, too.
    function pairOf(uint256 jobId, uint256 matchId)
        external
        view
        returns (bool open, uint32 group0, uint32 group1);

    /// @notice Returns the second of the chain in which a commitment for a challenge was first made; zero if it was not.
    function committedAt(uint256 jobId, bytes32 commitment) external view returns (uint64);

    /// @notice Returns the commitment of a sender to a claim. A challenger has no logs to commit to: zero.
    function commitmentOf(
        uint256 jobId,
        address sender,
        bytes32 root,
        bytes32 last,
        bytes32 logs,
        bytes32 salt
    ) external view returns (bytes32);
}
