// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Sides} from "../clock/Sides.sol";
import {Descent} from "../commit/Descents.sol";
import {IJudge} from "./IJudge.sol";
import {IPanel} from "./IPanel.sol";
import {ITimed} from "./ITimekeeper.sol";
import {Program} from "./JobTypes.sol";

/// @notice The phase of a match. The zero state is not a match.
///
///     Walk ──▶ Refine ──▶ Walk ──▶ Open ──▶ Hearing ──▶ Done        (Done is reached from every phase)
enum Phase {
    None,
    Walk,
    Refine,
    Open,
    /// @dev The operator is before the panel, which decides how the match ends.
    Hearing,
    Done
}

/// @notice The cause that decided a match.
enum Reason {
    None,
    Timeout,
    Padding,
    Structure,
    InputCheckpoint,
    InputNode,
    InputConstant,
    InputStep,
    Log,
    Operator
}

/// @notice The hashes of a node in one step: structure, inputs, outputs, log (Verde's AugmentedCGNode).
struct Record {
    bytes32 structure;
    bytes32[] inputs;
    bytes32[] outputs;
    bytes32 log;
}

/// @notice Both sides' records of the disputed node, and the node's definition in the program.
struct Exhibit {
    Record record0;
    Record record1;
    /// @dev Encoding of the node's structure, and its path under the program's structure root.
    bytes structure;
    bytes32[] structurePath;
}

/// @notice The origin of input `input` of the disputed node, proven. Fields that its kind does not need are ignored.
///
///     operand            tensor              source, sourcePath             slotNode, slotOutput, slotPath
///     slot, first step   the initial tensor  path under the initial root
///     slot, later                            record under `agreed`          row of the slot table
///     node                                   record under either root
///     constant           the constant        path under the constant root
///     step number
struct Evidence {
    uint8 input;
    Record source;
    bytes32[] sourcePath;
    uint32 slotNode;
    uint8 slotOutput;
    bytes32[] slotPath;
    bytes32 tensor;
}

/// @notice The true log of the disputed node, under the root of the run's logs that the job stores.
struct LogProof {
    /// @dev The log's digest; zero if the node has none in this step.
    bytes32 log;
    /// @dev The root over the logs of the disputed step, and its path under the root of the run's logs.
    bytes32 stepRoot;
    bytes32[] stepPath;
    /// @dev The path of `log` under `stepRoot`.
    bytes32[] nodePath;
}

/// @notice The constant subject of a match. Only its hash is stored, in the match's id: moves show it again.
struct MatchTerms {
    /// @dev The run roots, and the spokesmen of their groups.
    bytes32[2] roots;
    address[2] players;
    /// @dev Seconds for each side.
    uint32 clock;
    /// @dev The number that the Jobs contract gave the match, below 2^48: the last bits of its id.
    uint256 number;
    Program program;
}

/// @notice The position of a match in the trees. Only its hash is stored: moves show it again, and events contain it.
/// @dev INVARIANT: `node[0] != node[1]` until `Done`, and everything to the left of the position is equal in both
/// trees, so the position is the first difference.
struct Position {
    /// @dev The roots of the current tree. NOTE: in `Refine` a side that has refined has its finer root here.
    bytes32[2] root;
    /// @dev Each side's node at the position: the `index`-th of the match's height.
    bytes32[2] node;
    /// @dev Checkpoint `C_start`, the same for both.
    bytes32 agreed;
}

/// @notice The state of a match, in three slots.
struct Match {
    /// @dev The Jobs contract that opened the match and receives its result.
    address jobs;
    /// @dev The current tree covers the steps `(start, end]`.
    uint48 start;
    uint48 end;
    uint56 jobId;
    /// @dev The instant from which the sides that owe a move are charged.
    uint40 tick;
    /// @dev Seconds left to each side, not counting the time since `tick`.
    uint32 clock0;
    uint32 clock1;
    Phase phase;
    /// @dev Bit `s`: side `s` has posted its half at this position.
    uint8 posted;
    /// @dev Index into the program's strides; in a step tree the number of strides.
    uint8 level;
    uint8 height;
    uint48 index;
    /// @dev Once Done. Bit `s`: side `s` lost.
    uint8 losers;
    Reason reason;
    /// @dev keccak256 of the position's encoding.
    bytes32 position;
}

/// @title IReferee
/// @notice Decides which of two different run roots is wrong, by one walk down two trees and a look at one node.
///
/// PROMISES
/// - Any Jobs contract may use it; a match concerns only the one that opened it. No owner, no upgrade, no ether.
/// - A side that publishes what its root commits to, in time, and is right, never loses.
/// - A match ends: it lasts at most the sum of both clocks, plus its hearing (see IPanel).
/// - Time is conserved: no move gives a second back. One function (`late`) serves views, moves and `timeout`.
/// - Every move but `refine` is bound by hashes to committed data, so anybody may send it.
/// - Each side is judged against the truth, never against the other side: both can lose.
///
/// ASSUMPTIONS
/// - SHA-256 is collision resistant; transactions get through within a clock, by the time of the timekeeper.
/// - The program's roots are those of a sound program: parties refuse a job whose roots they cannot recompute.
/// - The panel's decision about an operator is right (see IPanel).
interface IReferee is ITimed {
    // ------------------------------------------------------------------ events

    event Opened(uint256 indexed matchId, address indexed jobs, uint256 indexed jobId, MatchTerms matchTerms);
    /// @notice The match enters a tree, or reaches a disputed interval or node.
    event Entered(
        uint256 indexed matchId,
        Phase phase,
        uint8 level,
        uint8 height,
        uint64 start,
        uint64 end,
        bytes32 agreed
    );
    event Revealed(uint256 indexed matchId, uint8 side, uint8 height, uint64 index, bytes32[] children);
    event Descended(uint256 indexed matchId, uint8 height, uint64 index, bytes32 node0, bytes32 node1);
    event Refined(uint256 indexed matchId, uint8 side, uint8 level, bytes32 root);
    event RecordOpened(uint256 indexed matchId, uint8 side, Record record);
    event Decided(uint256 indexed matchId, uint8 losers, Reason reason);

    // ------------------------------------------------------------------ errors

    error SameRoots(bytes32 root);
    error JobIdTooLarge(uint256 jobId, uint256 limit);
    error MatchNumberTooLarge(uint256 number, uint256 limit);
    /// @notice The caller has opened a match with these terms before.
    error MatchExists(uint256 matchId);
    /// @notice These match terms are not the match's.
    error AnotherMatch(uint256 have, uint256 want);
    error AnotherPosition(bytes32 have, bytes32 want);
    error UnknownOpset(uint32 opsetVersion);
    error UnknownMode(uint8 mode);
    error WrongPhase(uint256 matchId, Phase have, Phase want);
    /// @notice The match is late; only `timeout` works.
    error Late(uint256 matchId, Sides sides);
    error NotLate(uint256 matchId, uint256 deadline);
    error BadSide(uint8 side);
    error AlreadyPosted(uint256 matchId, uint8 side);
    error PreviousNotNeeded();
    error NotSpokesman(address sender, address spokesman);
    error WellFormed();
    error Malformed(uint8 mask);
    error InputsEqual(uint256 input);
    error InputsDiffer(uint256 input);
    error LogsEqual();
    error LogsDiffer();
    error UnknownOperand(uint8 kind);
    /// @notice An input names a node that is not an earlier one, so its output is not agreed.
    error ForwardReference(uint256 source, uint256 node);
    error NotPanel(address sender);

    // ------------------------------------------------------------------ moves

    /// @notice Opens a match between two different run roots; the caller receives the result by `IJobs.resolve`.
    /// @dev The id is a hash of everything that defines the match, so after a reorganisation no move and no signature
    /// of one match is valid in another; its last 48 bits are `number`.
    /// @param number Tells the caller's matches of the same roots and players apart.
    function open(
        uint256 jobId,
        bytes32[2] calldata roots,
        address[2] calldata players,
        uint32 clock,
        uint256 number,
        Program calldata program
    ) external returns (uint256 matchId);

    /// @notice Walk: publishes the `2^min(height, 4)` descendants of a side's node.
    function reveal(uint256 matchId, Position calldata here, uint8 side, bytes32[] calldata children) external;

    /// @notice Walk: moves to the first descendant that differs, shown by a path in each tree.
    /// @param previous Run trees, at height 0 and `index > 0` only: the checkpoint before the disputed interval, with
    /// its path under either root; otherwise zero and empty.
    function descend(
        uint256 matchId,
        MatchTerms calldata matchTerms,
        Position calldata here,
        Descent calldata way,
        bytes32 previous,
        bytes32[] calldata previousPath
    ) external;

    /// @notice Refine: a side's spokesman posts its run root of the disputed interval at the next stride, and proves
    /// that its last leaf is that side's disputed checkpoint.
    function refine(
        uint256 matchId,
        MatchTerms calldata matchTerms,
        Position calldata here,
        uint8 side,
        bytes32 root,
        bytes32[] calldata lastPath
    ) external;

    /// @notice Open: publishes a side's record of the disputed node.
    function openRecord(uint256 matchId, Position calldata here, uint8 side, Record calldata record) external;

    /// @notice Open: finds a record that is not what the program says; its side loses.
    function judgeStructure(
        uint256 matchId,
        MatchTerms calldata matchTerms,
        Position calldata here,
        Exhibit calldata exhibit
    ) external;

    /// @notice Open: both records are well formed and differ in an input; a side whose input is not the true one loses.
    function judgeInput(
        uint256 matchId,
        MatchTerms calldata matchTerms,
        Position calldata here,
        Exhibit calldata exhibit,
        Evidence calldata evidence
    ) external;

    /// @notice Open: both records are well formed and differ in their logs; a side whose log is not the job's loses.
    function judgeLog(
        uint256 matchId,
        MatchTerms calldata matchTerms,
        Position calldata here,
        Exhibit calldata exhibit,
        LogProof calldata proof
    ) external;

    /// @notice Open: both records are well formed, with equal inputs and logs, so the operator itself is in dispute,
    /// and is submitted to the panel.
    function submit(
        uint256 matchId,
        MatchTerms calldata matchTerms,
        Position calldata here,
        Exhibit calldata exhibit
    ) external;

    /// @notice Hearing: the panel ends the match. The panel only.
    /// @param losers Bit `s`: side `s` lost.
    /// @param deciders The verifiers whose verdict decided, if a verdict did.
    function onHearingDecided(uint256 matchId, uint8 losers, Reason reason, address[] calldata deciders)
        external;

    /// @notice Ends a match that is late. The loser is the same, however late it is called.
    function timeout(uint256 matchId) external;

    // ------------------------------------------------------------------ views

    /// @notice Returns the program's hash; reverts if a field is out of range, or its opset version or mode is unknown.
    function check(Program calldata program) external view returns (bytes32);

    function getMatch(uint256 matchId) external view returns (Match memory);

    /// @notice Returns for each side whether it is late now. Moves, timeouts and bots use the same function.
    function late(uint256 matchId) external view returns (bool side0, bool side1);

    /// @notice Walk, Refine, Open: returns the last instant at which a move is in time; otherwise zero.
    function deadline(uint256 matchId) external view returns (uint256);

    /// @notice The contract that judges evidence.
    function JUDGE() external view returns (IJudge);

    /// @notice The contract that judges operators.
    function PANEL() external view returns (IPanel);
}
