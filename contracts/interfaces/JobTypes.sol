// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

// The types of a job: as a client asks for it, as Jobs stores it, and as views show it.

// Long enough for any host name and path, short enough to list.
uint256 constant MAX_URI = 512;
// Claims and groups that `viewOf` returns; `claimsFrom` and `groupsFrom` return pages of this size.
uint256 constant PAGE = 64;

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

/// @notice How the operators of a job's matches are judged: by a verdict of the job's verifiers, with appeals to the
/// Court; by the Court alone if they reach none or the job names none. Periods are in seconds.
struct Rules {
    /// @dev Votes that make a verdict. Zero if the job names no verifiers.
    uint8 threshold;
    uint32 verdictPeriod;
    /// @dev The time to appeal from a verdict, and the time for its signers to stand by it after it was overruled.
    uint32 appealPeriod;
    /// @dev Seconds for each side in a match, and again in each trial.
    uint32 clock;
}

/// @notice A client's terms for a job. Periods are in seconds.
struct Terms {
    Program program;
    /// @dev SHA-256 of the program file, which is served with the other artifacts at `uri`.
    bytes32 programFile;
    string uri;
    address referee;
    /// @dev Number of trainers wanted.
    uint8 slots;
    /// @dev The least stake of a slot and of a challenger's claim, in wei. The stake at present: `IJobs.stakeOf`.
    uint256 stake;
    /// @dev Bounds on the price of a unit of gas in this job, in wei, whatever the chain asks: `IJobs.feeOf`.
    uint64 lowFee;
    uint64 highFee;
    uint32 trainPeriod;
    /// @dev Time between the last trainer's commitment and Reveal, in which others who have trained, too, can commit to
    /// their result (IWatch). May be zero.
    uint32 watchPeriod;
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

/// @notice The statement that `claimed` is wrong as the checkpoint after an interval of a claimed run, given the
/// checkpoint before it in the same run, and that `computed` is right.
struct Refutation {
    /// @dev The claimed run root.
    bytes32 root;
    /// @dev The interval's number from zero: the place of `claimed` among the leaves of the run tree.
    uint64 interval;
    bytes32 claimed;
    bytes32 computed;
    /// @dev Leads from `claimed` to the root.
    bytes32[] path;
    string uri;
}

/// @notice The phase of a job. The zero state is not a job.
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

/// @notice A job as it is stored, in words that are written together: each new one is dear. Fields as in Terms and Job.
/// Terms that only views and matches need are the code of an account.
struct KeptJob {
    address referee;
    uint8 slots;
    /// @dev True in a mode with rounding logs.
    bool rounded;
    uint32 revealPeriod;
    uint32 challengePeriod;
    // ---
    /// @dev At most 2^80 (Notary).
    uint88 stake;
    /// @dev Number of leaves of a run tree at the first stride.
    uint48 checkpoints;
    uint40 lowFee;
    uint40 highFee;
    uint32 watchPeriod;
    // ---
    /// @dev The account whose code has all other terms: see `TermsFile`.
    address file;
    uint32 verdictPeriod;
    uint32 appealPeriod;
    uint32 clock;
    // ---
    address client;
    uint96 reward;
    // ---
    uint40 commitEnd;
    uint40 revealEnd;
    uint40 challengeEnd;
    uint40 reclaimEnd;
    uint40 reopened;
    JobPhase ended;
    uint8 threshold;
    uint8 joined;
    uint8 commitments;
    uint8 reveals;
    // ---
    uint40 posted;
    uint24 openMatches;
    uint24 waiting;
    uint24 founded;
    uint24 followers;
    uint24 refutations;
    /// @dev Number of groups that slot holders founded.
    uint8 slotGroups;
    /// @dev The seats of the slot holders' claims in the order of their numbers, four bits each.
    uint64 order;
    // ---
    bytes32 logs;
    address finder;
}

/// @notice A job as views show it.
struct Job {
    Terms terms;
    address client;
    uint64 posted;
    uint256 reward;
    // Instants: a phase contains its first one, not its last.
    uint64 commitEnd;
    uint64 revealEnd;
    uint64 challengeEnd;
    /// @dev Zero while the job runs; then how it ended: Accepted, Unclaimed or Void.
    JobPhase ended;
    /// @dev Number of commitments made, and of commitments revealed.
    uint8 commitments;
    uint8 reveals;
    /// @dev The latest `until` or `refutableUntil` of a group; zero if there is none.
    uint64 reclaimEnd;
    /// @dev Number of matches that run.
    uint32 openMatches;
    /// @dev Number of the waiting group plus one; zero if none waits. Once Accepted: that of the accepted group.
    uint32 waiting;
    /// @dev Number of roots that challengers founded, and of challengers' claims of roots claimed before.
    uint32 founded;
    uint32 followers;
    /// @dev The end of the challenge period that a refutation has opened, because no claim was left; zero if none has.
    uint64 reopened;
    /// @dev Once Accepted: the root of the accepted group.
    bytes32 acceptedRoot;
    /// @dev In a mode with rounding logs: the root of the run's logs, as the one trainer has revealed it, an input of
    /// the run for everybody. NOTE: zero may be a root: of one node, in one step, without a log.
    bytes32 logs;
    /// @dev The first requester of logs that were withheld; zero if there is none. With a finder nothing is accepted.
    address finder;
    /// @dev Stakes of the slots without a revealed claim, in wei.
    uint96 unrevealed;
    /// @dev Number of claims and of groups.
    uint32 claims;
    uint32 groups;
}

/// @notice A slot holder.
struct Trainer {
    address owner;
    bool revealed;
    /// @dev The stake paid for the slot and, once revealed, for the claim, in wei.
    uint88 stake;
    /// @dev Zero once revealed.
    bytes32 commitment;
}

/// @notice The place of a slot holder, from its joining on, or of a challenger's claim or refutation.
struct Seat {
    address owner;
    /// @dev In wei: of the slot, then of the claim.
    uint88 stake;
    /// @dev Bits: see `SeatLookup`.
    uint8 flags;
    /// @dev Of a slot holder before its claim: its commitment, or zero. Of a claim: its root. Of a refutation: the number
    /// of its group.
    bytes32 mark;
}

/// @notice A claim as views show it.
struct StakedClaim {
    address owner;
    /// @dev In wei.
    uint96 stake;
    uint32 group;
    /// @dev True if a slot holder revealed it, false if it is a challenge.
    bool slot;
    bool lost;
    /// @dev True once the job is over and the owner has been credited.
    bool collected;
}

/// @notice All claims of one root; or a refutation, which is the only member of its group.
struct Group {
    bytes32 root;
    /// @dev The match the group is in, or zero.
    uint256 matchId;
    /// @dev Position of the spokesman in `members`. INVARIANT: exactly the members before it have lost.
    /// NOTE: each further claim of a root costs twice the one before, so there are at most a hundred or so.
    uint16 spokesman;
    /// @dev Number of members that hold slots. INVARIANT: they are the first ones.
    uint8 slots;
    /// @dev Number of times that all members had lost.
    uint24 deaths;
    /// @dev Matters after the challenge phase. A dead group: the end of the time to claim its root again. A living
    /// group that a challenger's claim has begun: the end of the time to request its data, and to refute its root.
    uint40 until;
    /// @dev Matters after the challenge phase: until then the root can be refuted, because a refutation of it has lost.
    uint40 refutableUntil;
    /// @dev Sum of the stakes of the members that have not lost, in wei.
    uint96 atRisk;
    /// @dev A refutation: the number of the group that it refutes plus one. Else zero.
    uint32 refutes;
    /// @dev Claim numbers, in order of arrival.
    uint32[] members;
}

/// @notice A group as it is stored: one word. Fields as in Group. Its root is that of its first member.
struct KeptGroup {
    uint8 spokesman;
    /// @dev Number of members.
    uint8 size;
    uint8 slots;
    uint16 deaths;
    uint40 until;
    uint40 refutableUntil;
    uint24 refutes;
    /// @dev The number of the group that it plays plus one; zero if it is in no match.
    uint24 opponent;
    /// @dev In a match: whether it is side 1.
    bool second;
    /// @dev The first three members, 24 bits each.
    uint72 members;
}
