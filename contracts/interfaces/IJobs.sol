// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {IEscrow} from "./IEscrow.sol";
import {Reason} from "./IReferee.sol";
import {ITimed} from "./ITimekeeper.sol";

// Long enough for any host name and path, short enough to list.
uint256 constant MAX_URI = 512;

/// @notice One training step as a graph, by its roots. See docs/protocol.md, section 4.
struct Program {
    uint32 opsetVersion;
    /// @dev See Modes: repops-f32, or rounded-f64 with its parameters.
    uint8 mode;
    uint32 nodeCount;
    uint32 slotCount;
    uint32 constantCount;
    uint64 steps;
    bytes32 structureRoot;
    bytes32 slotRoot;
    bytes32 constantRoot;
    bytes32 initialRoot;
    uint64[] strides;
}

/// @notice How the operators of a job's matches are judged: by a verdict of the job's verifiers, from which the Court hears
/// appeals, and by the Court alone where they reach none or the job names none. Periods are seconds.
struct Rules {
    /// @dev How many of the verifiers make a verdict. Zero if the job names none.
    uint8 threshold;
    uint32 verdictPeriod;
    /// @dev To appeal from a verdict, and for its signers to stand by it after it was overruled.
    uint32 appealPeriod;
    /// @dev Each side's clock in a match, and again in a trial.
    uint32 clock;
}

/// @notice What a client asks for. Periods are seconds.
struct Terms {
    Program program;
    /// @dev SHA-256 of the program file, which is served with the other artifacts at `uri`.
    bytes32 programFile;
    string uri;
    address referee;
    /// @dev How many trainers are wanted.
    uint8 slots;
    /// @dev What every claim and every slot puts at risk, in wei.
    uint256 stake;
    uint32 trainPeriod;
    uint32 revealPeriod;
    uint32 challengePeriod;
    Rules rules;
    address[] verifiers;
}

/// @notice A run root with its last checkpoint `C_n`, proven to be the last leaf.
struct Claim {
    bytes32 root;
    bytes32 last;
    bytes32[] lastPath;
    string uri;
}

/// @notice Where a job stands. The zero state is no job.
enum JobPhase {
    None,
    Training,
    Reveal,
    Challenge,
    Closing,
    Accepted,
    Unclaimed,
    Void
}

/// @notice What the game of a job goes by, of its terms.
struct Conditions {
    address referee;
    uint8 slots;
    /// @dev A mode with rounding logs.
    bool rounded;
    uint32 revealPeriod;
    uint32 challengePeriod;
    uint256 stake;
    /// @dev Leaves of a run tree at the first stride.
    uint64 checkpoints;
    Rules rules;
}

/// @notice A job as it is kept. Its terms are written once, as the code of an account, because most of them are only shown.
struct KeptJob {
    Conditions terms;
    /// @dev The account whose code is the encoding of all terms.
    address file;
    address client;
    uint64 posted;
    uint256 reward;
    uint64 commitEnd;
    uint64 revealEnd;
    uint64 challengeEnd;
    JobPhase ended;
    uint8 commitments;
    uint8 reveals;
    uint8 openMatches;
    uint8 waiting;
    bytes32 acceptedRoot;
    bytes32 acceptedLast;
    bytes32 logs;
    address finder;
}

/// @notice A job as it is shown.
struct Job {
    Terms terms;
    address client;
    uint64 posted;
    uint256 reward;
    // Instants: a phase contains its first, not its last.
    uint64 commitEnd;
    uint64 revealEnd;
    uint64 challengeEnd;
    /// @dev Zero while the job runs; else how it ended: Accepted, Unclaimed or Void.
    JobPhase ended;
    /// @dev Commitments made, commitments revealed, matches running.
    uint8 commitments;
    uint8 reveals;
    uint8 openMatches;
    /// @dev Number of the waiting group plus one; zero if none waits.
    uint8 waiting;
    /// @dev Once Accepted.
    bytes32 acceptedRoot;
    bytes32 acceptedLast;
    /// @dev A mode with rounding logs: the root of the run's logs, as the one trainer has revealed it. An input of the run
    /// for everybody. NOTE: zero may be a root: of one node, in one step, without a log.
    bytes32 logs;
    /// @dev Who demanded of these logs what nobody has shown in time; zero if all was shown. Then nothing is accepted.
    address finder;
}

/// @notice A slot holder.
struct Trainer {
    address owner;
    bool revealed;
    bytes32 commitment;
}

/// @notice A claim as it is kept.
struct StakedClaim {
    address owner;
    uint8 group;
    /// @dev Revealed by a slot holder, as opposed to a challenge.
    bool slot;
    bool lost;
    string uri;
}

/// @notice All claims of one root.
struct Group {
    bytes32 root;
    bytes32 last;
    /// @dev The match the group is in, or zero.
    uint256 matchId;
    /// @dev Position in `members` of the spokesman. INVARIANT: exactly the members before it have lost.
    uint8 spokesman;
    /// @dev Claim numbers, in order of arrival.
    uint8[] members;
}

/// @title IJobs
/// @notice Jobs with escrow, staked claims, and the pairing of claims that differ.
///
/// PROMISES
/// - If the referee is sound and one honest party claims and plays, the accepted root is the right one and that party
///   loses nothing.
/// - Ether in = ether out + burned: at all times balance = credits + stakes at risk + rewards in escrow.
/// - A payment never blocks progress: money is credited, and drawn by whom it belongs to.
/// - A job has at most 16 slots and 64 claims, so every move has bounded gas. A job that is full ends void: whoever
///   found no place may have been right.
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
        uint8 claim,
        uint8 group,
        bytes32 root,
        bytes32 last,
        string uri
    );
    event LogsRevealed(uint256 indexed jobId, bytes32 logs);
    event LogsWithheld(uint256 indexed jobId, address indexed finder);
    event Waiting(uint256 indexed jobId, uint8 group);
    event Paired(uint256 indexed jobId, uint256 indexed matchId, uint8 group0, uint8 group1);
    event Resolved(uint256 indexed jobId, uint256 indexed matchId, uint8 losers, Reason reason);
    event ClaimLost(uint256 indexed jobId, address indexed owner, uint8 claim);
    event GroupDied(uint256 indexed jobId, uint8 group);
    event Accepted(uint256 indexed jobId, bytes32 root, bytes32 last);
    event Unclaimed(uint256 indexed jobId);
    event Voided(uint256 indexed jobId);

    // ------------------------------------------------------------------ errors

    error BadReferee(address referee);
    error BadSlots(uint256 slots);
    /// @notice A mode with rounding logs has one trainer: another could not know the logs of the first.
    error OneSlotOnly(uint256 slots);
    error StakeTooSmall(uint256 have, uint256 want);
    error BadPeriod(uint256 have, uint256 min, uint256 max);
    error UriTooLong(uint256 length);
    error BadVerifierCount(uint256 count);
    error BadThreshold(uint256 threshold, uint256 verifiers);
    error VerifierTwice(address verifier);
    /// @notice Its bond does not answer to the panel that the job's referee submits to.
    error VerifierNotRegistered(address verifier, address panel);
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
    /// @notice A mode with rounding logs: nobody can claim before the trainer's logs are known.
    error LogsNotRevealed(uint256 jobId);
    error AlreadyClaimed(uint256 jobId, address owner);
    error TooManyClaims(uint256 jobId);
    /// @notice Somebody who has not lost claims this root already; it can be claimed again when its last claim is lost.
    error RootClaimed(bytes32 root);
    error MatchesOpen(uint256 jobId, uint256 count);
    error NotReferee(address sender, address referee);
    error NoSuchMatch(uint256 jobId, uint256 matchId);
    error MatchTaken(uint256 jobId, uint256 matchId);
    error BadResult(uint8 losers);
    error NotDemands(address sender);
    /// @notice What is demanded of a root is lost when its match is over.
    error GroupPlays(uint256 jobId, bytes32 root);
    error DemandsOpen(uint256 jobId, uint256 count);

    // ------------------------------------------------------------------ moves

    /// @notice Posts a job; the value is the reward.
    function post(Terms calldata terms) external payable returns (uint256 jobId);

    /// @notice Training: takes a slot; the value is the stake, exactly.
    function join(uint256 jobId) external payable;

    /// @notice Training: a slot holder commits, once. The last one ends the phase.
    function commit(uint256 jobId, bytes32 commitment) external;

    /// @notice Reveal: a slot holder shows what it committed to. The last one ends the phase.
    /// @param logs The root of the run's rounding logs; zero in a mode that has none.
    function reveal(uint256 jobId, Claim calldata claim, bytes32 logs, bytes32 salt) external;

    /// @notice Challenge: anybody commits to a claim; again replaces what was there.
    function commitChallenge(uint256 jobId, bytes32 commitment) external;

    /// @notice Challenge: anybody without a claim in this job stakes one that it has committed to `COMMIT_AGE` seconds ago or
    /// earlier, of a root that no living claim has; the value is the stake, exactly.
    /// @dev Whoever sees a claim on its way into a block can commit to it then at the earliest, and has to wait for as long as
    /// that: the claim has all blocks of that time to get in, so nobody takes another's.
    function challenge(uint256 jobId, Claim calldata claim, bytes32 salt) external payable;

    /// @notice The job's referee ends a match.
    /// @param losers Bit `s`: side `s` lost. At least one did.
    /// @param deciders The verifiers whose verdict decided, if verifiers did.
    function resolve(uint256 jobId, uint256 matchId, uint8 losers, Reason reason, address[] calldata deciders)
        external;

    /// @notice Challenge: something of this job was demanded, and may be answered until then. The contract of demands says from when
    /// extensions count: the first demand under the same root and claimants, later by a minute and the 64th part of a verdict
    /// period for every page of logs that was demanded there.
    /// @dev The challenge phase lasts at least a challenge period longer than the answer may take, but no demand makes it last longer
    /// than four times a verdict and a challenge period, and 61,440 seconds, counted from that start.
    function extend(uint256 jobId, uint64 start, uint64 until) external;

    /// @notice What was demanded nobody has published. Of a claimed root: all who claim it lose their stakes. Of the run's logs:
    /// nobody can be shown right, so nothing will be accepted and the job ends void; the trainer loses its stake, unless it
    /// loses it in the match that it is in, or has lost it before. Half of what is lost is the finder's. The game among the others goes on.
    function forfeit(uint256 jobId, bytes32 root, bool logs, address finder) external;

    /// @notice Closing, no match and no demand open: accepts the root that is left and pays everybody. A job whose logs are
    /// withheld, or that is full, ends void.
    function finalize(uint256 jobId) external;

    // ------------------------------------------------------------------ views

    /// @notice Seconds of the chain, several blocks: how old a commitment must be for a challenge.
    function COMMIT_AGE() external view returns (uint32);

    /// @notice Number of jobs; they are numbered from 1.
    function jobCount() external view returns (uint256);

    /// @notice All of a job: its phase, the slot holders (at most 16), the claims and the groups (at most 64 each), both
    /// by number. No job has the phase None.
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

    /// @notice Words of storage, from which the Notary makes that.
    function wordsAt(bytes32 from, uint256 count) external view returns (bytes32[] memory);

    /// @notice The account whose code is the encoding of a job's terms.
    function fileOf(uint256 jobId) external view returns (address);

    function phaseOf(uint256 jobId) external view returns (JobPhase);

    function programOf(uint256 jobId) external view returns (Program memory);

    /// @notice The root of the logs of the job's run (see Job); zero until it is revealed.
    function logsOf(uint256 jobId) external view returns (bytes32);

    /// @notice How a job's operators are judged, and the bond of an appeal: the job's stake.
    function rulesOf(uint256 jobId) external view returns (Rules memory rules, uint256 stake);

    /// @notice Whether somebody who has not lost claims this root, and how many have claimed it so far.
    function standing(uint256 jobId, bytes32 root) external view returns (uint8 members, bool claimed);

    function isVerifier(uint256 jobId, address account) external view returns (bool);

    /// @notice The two groups of a match that is open.
    function pairOf(uint256 jobId, uint256 matchId)
        external
        view
        returns (bool open, uint8 group0, uint8 group1);

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
