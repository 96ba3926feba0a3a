// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

// What a job is made of: what a client asks for, what is kept, and what is shown.

// Long enough for any host name and path, short enough to list.
uint256 constant MAX_URI = 512;
// Claims and groups that `viewOf` shows; the others are in pages of as many.
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
    /// @dev What a slot and the first claim of a challenger put at risk at least, in wei. What they do now: `IJobs.stakeOf`.
    uint256 stake;
    /// @dev The least and the most that a unit of gas counts for, in wei, whatever the chain asks: `IJobs.feeOf`.
    uint64 lowFee;
    uint64 highFee;
    uint32 trainPeriod;
    /// @dev For how long nobody reveals after the last trainer has committed, so that others who have trained, too, can commit
    /// to what they have found (IWatch). Zero: not at all.
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
    uint64 lowFee;
    uint64 highFee;
    uint32 watchPeriod;
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
    uint64 reclaimEnd;
    uint32 openMatches;
    uint32 waiting;
    uint32 founded;
    uint32 followers;
    bytes32 logs;
    address finder;
    uint96 unrevealed;
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
    /// @dev Commitments made, commitments revealed.
    uint8 commitments;
    uint8 reveals;
    /// @dev The latest `until` of its groups; zero if there is none.
    uint64 reclaimEnd;
    /// @dev Matches running.
    uint32 openMatches;
    /// @dev Number of the waiting group plus one; zero if none waits. Once Accepted: of the accepted one.
    uint32 waiting;
    /// @dev Roots that challengers were the first to claim, and challengers' claims of roots that were claimed already.
    uint32 founded;
    uint32 followers;
    /// @dev Once Accepted: the root of the accepted group, and its last checkpoint.
    bytes32 acceptedRoot;
    bytes32 acceptedLast;
    /// @dev A mode with rounding logs: the root of the run's logs, as the one trainer has revealed it. An input of the run
    /// for everybody. NOTE: zero may be a root: of one node, in one step, without a log.
    bytes32 logs;
    /// @dev Who requested of these logs what nobody has shown in time; zero if all was shown. Then nothing is accepted.
    address finder;
    /// @dev Stakes of the slots that nobody has revealed a claim for, in wei.
    uint96 unrevealed;
    /// @dev How many claims and groups there are.
    uint32 claims;
    uint32 groups;
}

/// @notice A slot holder.
struct Trainer {
    address owner;
    bool revealed;
    /// @dev What it put at risk when it took the slot, in wei.
    uint88 stake;
    bytes32 commitment;
}

/// @notice A claim as it is kept. Whether it is lost its group says.
struct KeptClaim {
    address owner;
    uint96 stake;
    uint32 group;
    /// @dev Its position in the group's members.
    uint32 place;
    bool slot;
    bool collected;
    string uri;
}

/// @notice A claim as it is shown.
struct StakedClaim {
    address owner;
    /// @dev What it puts at risk, in wei.
    uint96 stake;
    uint32 group;
    /// @dev Revealed by a slot holder, as opposed to a challenge.
    bool slot;
    bool lost;
    /// @dev The job is over, and what the claim gets is credited.
    bool collected;
    string uri;
}

/// @notice All claims of one root.
struct Group {
    bytes32 root;
    bytes32 last;
    /// @dev The match the group is in, or zero.
    uint256 matchId;
    /// @dev Position in `members` of the spokesman. INVARIANT: exactly the members before it have lost.
    uint32 spokesman;
    /// @dev How many members hold slots. INVARIANT: they are the first.
    uint8 slots;
    /// @dev How often all members there were had lost.
    uint32 deaths;
    /// @dev Once the challenge phase is over. Of a dead group: until then its root can be claimed again. Of a living one that a
    /// challenger's claim has begun: until then something can be requested of it.
    uint64 until;
    /// @dev Stakes of the members that have not lost.
    uint96 atRisk;
    /// @dev Claim numbers, in order of arrival.
    uint32[] members;
}
