// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {ITimed} from "./ITimekeeper.sol";

/// @notice A registered verifier. `bond == 0` means not registered.
struct Verifier {
    uint256 bond;
    /// @dev Zero while active; else the instant from which the bond can be withdrawn.
    uint64 leavesAt;
    /// @dev The contract that the bond answers to.
    address panel;
    string uri;
}

/// @title IVerifierRegistry
/// @notice Who re-executes disputed operators, and where to reach them.
///
/// PROMISES
/// - Anyone registers with at least `MIN_BOND`; nobody can be refused, removed or robbed. No owner, no upgrade.
/// - A bond stays locked for `LEAVE_DELAY` after its verifier has left, and while a hearing holds it that the verifier has
///   voted in.
/// - A bond is paid to its verifier, or to the one panel that the verifier has named itself, which may take it.
///
/// ASSUMPTIONS
/// - A verifier names only a panel whose code it knows.
interface IVerifierRegistry is ITimed {
    event Registered(address indexed verifier, uint256 bond, string uri);
    event Moved(address indexed verifier, string uri);
    event Leaving(address indexed verifier, uint64 leavesAt);
    event Left(address indexed verifier, uint256 bond);
    event BondTaken(address indexed verifier, address indexed panel, uint256 bond);

    error BondTooSmall(uint256 have, uint256 want);
    error UriTooLong(uint256 length);
    error AlreadyRegistered(address verifier);
    error NotRegistered(address verifier);
    error AlreadyLeaving(address verifier, uint64 leavesAt);
    error StillLocked(address verifier, uint64 leavesAt);
    /// @notice Hearings are open in which the verifier has voted.
    error StillHeld(address verifier, uint256 hearings);
    error NotPanel(address sender, address panel);

    /// @notice Registers the sender with the value as bond, which answers to `panel`.
    function register(address panel, string calldata uri) external payable;

    /// @notice Changes the sender's endpoint.
    function move(string calldata uri) external;

    /// @notice The sender stops being eligible for new jobs; its bond unlocks after `LEAVE_DELAY`.
    function unregister() external;

    /// @notice Pays the unlocked bond back to the sender.
    function withdrawBond() external;

    /// @notice The verifier's panel keeps the bond from being withdrawn; once for each hearing.
    function hold(address verifier) external;

    /// @notice The panel that held a bond lets go of it, once.
    function release(address verifier) external;

    /// @notice The verifier's panel takes the bond, in ether; zero if there is none any more.
    /// @return bond In wei.
    /// @return alone Whether no second hearing holds it.
    function take(address verifier) external returns (uint256 bond, bool alone);

    /// @notice Whether new jobs may name this verifier, if their operators go to this panel.
    function serves(address verifier, address panel) external view returns (bool);

    function getVerifier(address verifier) external view returns (Verifier memory);

    /// @notice Number of addresses that ever registered, those that left included.
    function verifierCount() external view returns (uint256);

    function verifierAt(uint256 position) external view returns (address);
}
