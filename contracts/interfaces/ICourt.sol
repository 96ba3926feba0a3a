// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Sides} from "../clock/Sides.sol";
import {Descent} from "../commit/Descents.sol";
import {LogBlock} from "../commit/Logs.sol";
import {Entry} from "../element/IRule.sol";
import {IExaminer, Inputs, Opening} from "./IExaminer.sol";
import {Record} from "./IReferee.sol";
import {ITimed} from "./ITimekeeper.sol";

/// @notice The stage of a trial. The zero state is not a trial.
///
///     Outputs ──▶ Walk ──▶ Leaf ──▶ Post ──▶ Answer ──▶ Step ──▶ Done       (Done is reached from every stage)
///                                     ▲────────┘
enum Stage {
    None,
    Outputs,
    Walk,
    Leaf,
    Post,
    Answer,
    Step,
    Done
}

/// @notice Both sides' records of an operator whose inputs and log they agree on, with the operator's definition.
struct Dispute {
    Record[2] records;
    /// @dev Encoding of the node's structure.
    bytes structure;
    uint8 mode;
}

/// @notice The subject of a trial, which does not change. The trial's id is its hash: moves show it again.
struct TrialTerms {
    /// @dev The contract that opened the trial and receives its result, and the id that it gave.
    address client;
    uint256 id;
    address[2] players;
    /// @dev keccak256 of the encoding of the `Dispute`.
    bytes32 dispute;
}

/// @notice The statements of both sides that still count; zero where a side has not made one. Only their hash is
/// stored: moves show them again, and events contain them.
/// @dev INVARIANT: until Done the sides differ at the position: in `nodes` (Outputs, Walk, Leaf), later in the chain's
/// state after step `hi`; and both agree on the state after step `lo`.
struct TrialPosition {
    bytes32[2] nodes;
    /// @dev Each side's bits of the element.
    uint64[2] values;
    /// @dev keccak256 of the agreed state at `lo`, and of each side's state at `hi` unless `hi` is the end.
    bytes32 agreed;
    bytes32[2] states;
    /// @dev keccak256 of the states that side 0 has posted.
    bytes32 offer;
}

/// @notice The state of a trial, in three slots.
struct Trial {
    /// @dev The instant from which the sides that owe a move are charged.
    uint40 tick;
    /// @dev Seconds left to each side, not counting the time since `tick`.
    uint32 clock0;
    uint32 clock1;
    Stage stage;
    /// @dev Bit `s`: side `s` has shown its half at this position.
    uint8 posted;
    /// @dev The disputed output.
    uint8 output;
    /// @dev The position in the data trees: a node of this height, the `index`-th of that height.
    uint8 height;
    uint40 index;
    /// @dev Once Done. Bit `s`: side `s` lost.
    uint8 losers;
    /// @dev The agreed log's statement about the element: an `Entry`, once the element is known.
    uint8 kind;
    uint32 written;
    uint16 stateBytes;
    /// @dev The disputed element, and the open steps of its chain: `(lo, hi]` of `steps`.
    uint40 element;
    uint64 lo;
    uint64 hi;
    uint64 steps;
    /// @dev keccak256 of the encoding of `TrialPosition`.
    bytes32 position;
}

/// @title ICourt
/// @notice Judges an operator on-chain: one element of one output, one step of its chain (docs/adjudication.md).
///
/// PROMISES
/// - Anybody may open a trial; it concerns only the one that opened it. No owner, no upgrade, no ether.
/// - A side that shows what its record commits to, in time, and is right, never loses: there is no vote.
/// - A trial lasts at most the sum of both clocks. One function decides who is late.
/// - Each side is judged against the operator, never against the other side: both can lose.
///
/// ASSUMPTIONS
/// - SHA-256 and Keccak-256 are collision resistant; transactions get through within a clock.
/// - The records have the same structure, inputs and log, and the structure is the program's: the referee checks it.
interface ICourt is ITimed {
    // ------------------------------------------------------------------ events

    event TrialOpened(uint256 indexed trialId, address indexed client, TrialTerms trialTerms);
    event OutputShown(uint256 indexed trialId, uint8 side, uint8 output, bytes32 root);
    event NodesRevealed(uint256 indexed trialId, uint8 side, uint8 height, uint64 index, bytes32[] children);
    event NodesDescended(uint256 indexed trialId, uint8 height, uint64 index, bytes32 node0, bytes32 node1);
    event LeafShown(uint256 indexed trialId, uint8 side, bytes leaf);
    /// @notice The disputed element is `element`, and `entry` is the log's statement about it. Its chain has `steps`
    /// steps, from the state `first`.
    event ElementFound(
        uint256 indexed trialId, uint64 element, Entry entry, uint64[2] values, uint64 steps, bytes first
    );
    /// @notice Side 0 posts its states at the places inside `(lo, hi)`.
    event StatesPosted(uint256 indexed trialId, uint64 lo, uint64 hi, bytes states);
    /// @notice Side 1 names the first place, `hi`, where its state differs, and posts the state; empty at the
    /// interval's end.
    event StateAnswered(uint256 indexed trialId, uint64 lo, uint64 hi, bytes own);
    event TrialDecided(uint256 indexed trialId, uint8 losers);

    // ------------------------------------------------------------------ errors

    error AlreadyOpen(uint256 trialId);
    error WrongStage(uint256 trialId, Stage have, Stage want);
    /// @notice The trial is late; only `timeout` works.
    error TooLate(uint256 trialId, Sides sides);
    error NotTooLate(uint256 trialId, uint256 deadline);
    error NoSuchSide(uint8 side);
    error NothingShown();
    error AlreadyShown(uint256 trialId, uint8 side);
    error NotPlayer(address sender, address player);
    error NotTheDispute(bytes32 have, bytes32 want);
    error AnotherHash(bytes32 have, bytes32 want);
    error LeafTooLong(uint256 length);
    error BadStates(uint256 bytesGiven, uint256 bytesWanted);
    error NoSuchPlace(uint256 place, uint256 places);
    error SameState();
    error StateNotNeeded();

    // ------------------------------------------------------------------ moves

    /// @notice Opens a trial between two records of one operator. The caller receives the result by
    /// `ITrialClient.onTrialDecided`.
    /// @param clock Seconds for each side.
    function open(uint256 id, address[2] calldata players, uint32 clock, Dispute calldata dispute)
        external
        returns (uint256 trialId);

    /// @notice Outputs: shows the data roots of the first output that differs: both sides', or one side's and zero.
    function showOutputs(
        TrialTerms calldata trialTerms,
        Dispute calldata dispute,
        TrialPosition calldata position,
        bytes32[2] calldata roots
    ) external;

    /// @notice Walk: publishes the `2^min(height, 4)` descendants of a side's node.
    function reveal(
        TrialTerms calldata trialTerms,
        TrialPosition calldata position,
        uint8 side,
        bytes32[] calldata children
    ) external;

    /// @notice Walk: moves to the first descendant that differs, shown by a path in each tree.
    function descend(
        TrialTerms calldata trialTerms,
        Dispute calldata dispute,
        TrialPosition calldata position,
        Descent calldata way
    ) external;

    /// @notice Leaf: publishes a side's leaf.
    function showLeaf(
        TrialTerms calldata trialTerms,
        TrialPosition calldata position,
        uint8 side,
        bytes calldata leaf
    ) external;

    /// @notice Leaf: finds the first element in which the two leaves differ.
    /// @param inputs The operator's inputs, whose hashes are agreed.
    /// @param log The element's block of the agreed log; ignored if there is no log.
    function compare(
        TrialTerms calldata trialTerms,
        Dispute calldata dispute,
        TrialPosition calldata position,
        bytes calldata leaf0,
        bytes calldata leaf1,
        Inputs calldata inputs,
        LogBlock calldata log
    ) external;

    /// @notice Post: side 0 posts its states at the places of the open interval, concatenated, without the last place.
    function post(TrialTerms calldata trialTerms, TrialPosition calldata position, bytes calldata states)
        external;

    /// @notice Answer: side 1 names the first place, counted from 0, at which it has another state, and that state. The
    /// last place is the interval's end, where both states are known: `own` is then empty.
    function answer(
        TrialTerms calldata trialTerms,
        TrialPosition calldata position,
        bytes calldata states,
        uint256 place,
        bytes calldata own
    ) external;

    /// @notice Step: computes the one step that is left, and so decides the trial.
    /// @param agreed The state before the step.
    function judge(
        TrialTerms calldata trialTerms,
        Dispute calldata dispute,
        TrialPosition calldata position,
        Inputs calldata inputs,
        bytes calldata agreed,
        Opening[] calldata openings
    ) external;

    /// @notice Ends a trial that is late. The loser is the same, however late it is called.
    function timeout(TrialTerms calldata trialTerms) external;

    // ------------------------------------------------------------------ views

    /// @notice The contract that reads what is shown of an operator.
    function EXAMINER() external view returns (IExaminer);

    function getTrial(uint256 trialId) external view returns (Trial memory);

    function trialOf(TrialTerms calldata trialTerms) external pure returns (uint256);

    /// @notice Returns the last instant at which a move is in time; zero if nobody owes one.
    function deadline(uint256 trialId) external view returns (uint256);

    /// @notice Post, Answer: returns the steps `lo < p_1 < ... < p_n = hi` at which the chain is looked at next.
    function places(uint256 trialId) external view returns (uint64[] memory);
}

/// @title ITrialClient
/// @notice A contract that opens trials.
interface ITrialClient {
    /// @notice Receives the result of a trial.
    /// @param losers Bit `s`: side `s` is wrong, or late. Never zero.
    function onTrialDecided(uint256 id, uint8 losers, bool late) external;
}
