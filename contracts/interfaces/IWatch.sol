// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {IEscrow} from "./IEscrow.sol";
import {IJobs} from "./IJobs.sol";
import {JobPhase} from "./JobTypes.sol";

/// @notice The money that a funder has set aside for those who watch a job.
struct Bounty {
    IJobs jobs;
    uint256 jobId;
    address funder;
}

/// @notice The money of a bounty, and how it is distributed.
struct Pool {
    /// @dev The sum set aside, in wei; zero without a bounty.
    uint96 amount;
    /// @dev The number of watchers it is for: none gets more than this fraction of the sum.
    uint8 shares;
    /// @dev Number of watchers that have committed.
    uint32 watchers;
    /// @dev Zero until the bounty is distributed; then how the job ended: Accepted, Unclaimed or Void.
    JobPhase ended;
    /// @dev Once distributed: the share of each watcher that has shown the accepted root, in wei.
    uint96 share;
    /// @dev Once distributed: the accepted root, if there is one.
    bytes32 root;
}

/// @notice The state of a watcher of a bounty.
enum WatcherState {
    None,
    Committed,
    Shown,
    Collected
}

struct Watcher {
    /// @dev In wei.
    uint96 stake;
    WatcherState state;
    /// @dev The commitment; once shown, the root.
    bytes32 found;
}

/// @title IWatch
/// @notice Bounties for watching: a part of a job's worth goes to those who knew the right result before anybody
/// revealed one. A watcher that computes the result also notices a wrong claim, and claims the right one (IJobs).
///
///     none ─watch─▶ committed ─show─▶ shown ─collect─▶ collected
///                       └──────────collect────────────────▲
///
/// A watcher commits in Training, when nobody has revealed anything, and stakes as much as a slot does. It shows the
/// root in Challenge or Closing. If that root is accepted, the watcher gets its stake and a share; otherwise its stake
/// is burned. If no root is accepted, all stakes are returned.
///
/// From a pool `p` for `s` watchers, of whom `m` were right, each gets `p / s` if `m <= s`, else `p s / m^2`. The rest
/// returns to the funder. NOTE: not `p / m`, or one party that knows the root could come with more accounts and take
/// what others left over (docs/economics.md, section 8).
///
/// PROMISES
/// - A watcher that commits to the accepted root, and shows it, loses nothing but gas, and gets a share.
/// - Commitments help nobody else: they are salted, and bound to their senders.
/// - A pool pays at most what is in it, whatever its Jobs contract says, and when.
/// - Each funder has a bounty of its own: nobody can spend, fill or close another's.
/// - Anybody finds a place, at the price of a stake; no move costs more gas because there are many watchers.
/// - Balance = credits + pools not distributed + stakes not collected + shares of distributed pools not collected. No
///   owner, no upgrade.
///
/// ASSUMPTIONS
/// - SAFETY: any Jobs contract may be named. A malicious one harms only those who fund or watch its jobs.
/// - A commitment's salt has enough entropy.
interface IWatch is IEscrow {
    // ------------------------------------------------------------------ events

    event Funded(
        uint256 indexed jobId, address indexed jobs, address indexed funder, uint256 amount, uint8 shares
    );
    event Watched(
        uint256 indexed jobId,
        address indexed jobs,
        address indexed funder,
        address watcher,
        bytes32 commitment,
        uint256 stake
    );
    event Shown(
        uint256 indexed jobId, address indexed jobs, address indexed funder, address watcher, bytes32 root
    );
    /// @notice The job is over: `right` watchers have shown the accepted root and get a share each; the rest is
    /// credited to the funder.
    event Distributed(
        uint256 indexed jobId,
        address indexed jobs,
        address indexed funder,
        JobPhase ended,
        uint256 right,
        uint256 share
    );
    /// @notice A watcher is credited with `amount`, in wei; zero if its stake is burned.
    event Collected(
        uint256 indexed jobId, address indexed jobs, address indexed funder, address watcher, uint256 amount
    );

    // ------------------------------------------------------------------ errors

    /// @notice The bounty has no money: the value is zero, or nobody has funded it.
    error NothingFunded();
    error AlreadyFunded(uint256 jobId, address funder);
    error BadShares(uint256 shares);
    /// @notice In a mode with rounding logs only the trainer can know the root before the logs are revealed.
    error UnwatchableMode(uint8 mode);
    error AlreadyWatching(uint256 jobId, address watcher);
    /// @notice The sender has not committed to anything, or has shown it already.
    error NothingToShow(uint256 jobId, address watcher);
    /// @notice The account has not committed to anything, or has collected already.
    error NothingToCollect(uint256 jobId, address watcher);
    error AlreadyDistributed(uint256 jobId, address funder);

    // ------------------------------------------------------------------ moves

    /// @notice Training: sets the value aside for `shares` watchers, once for each sender.
    function fund(IJobs jobs, uint256 jobId, uint8 shares) external payable;

    /// @notice Training: commits to a root, once a sender. The value covers `stakeOf` the job; the excess is credited.
    function watch(Bounty calldata bounty, bytes32 commitment) external payable;

    /// @notice Challenge, Closing: opens the sender's commitment.
    /// @dev NOTE: a sender that shows a root which nobody claims gives it away, and should claim it first.
    function show(Bounty calldata bounty, bytes32 root, bytes32 salt) external;

    /// @notice After the job: records the accepted root, and credits the funder with the money that no watcher gets.
    /// Anybody may call it, once.
    function distribute(Bounty calldata bounty) external;

    /// @notice After the job: credits a watcher with its stake and share, or burns its stake. Anybody may call it, once
    /// for each watcher; the first call distributes.
    function collect(Bounty calldata bounty, address watcher) external;

    // ------------------------------------------------------------------ views

    function poolOf(Bounty calldata bounty) external view returns (Pool memory);

    function watcherOf(Bounty calldata bounty, address watcher) external view returns (Watcher memory);

    /// @notice Returns the number of watchers that have shown this root.
    function shownOf(Bounty calldata bounty, bytes32 root) external view returns (uint256);

    /// @notice Returns the commitment of a sender to a root.
    function commitmentOf(uint256 jobId, address sender, bytes32 root, bytes32 salt)
        external
        view
        returns (bytes32);
}
