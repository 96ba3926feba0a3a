// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

/// @notice What the publisher says of a release. The zero state is no release.
///
///     Current ──▶ Superseded ──▶ Withdrawn        (Withdrawn is reached from both; nothing leads back)
enum Status {
    None,
    Current,
    Superseded,
    Withdrawn
}

/// @notice The contracts that parties talk to.
struct Parts {
    address jobs;
    address referee;
    address panel;
    address court;
    address registry;
    address dataAvailability;
    address watch;
    address timekeeper;
}

/// @notice The code of each, as it was when the release was published: what `extcodehash` gives.
struct Codes {
    bytes32 jobs;
    bytes32 referee;
    bytes32 panel;
    bytes32 court;
    bytes32 registry;
    bytes32 dataAvailability;
    bytes32 watch;
    bytes32 timekeeper;
}

struct Release {
    string version;
    /// @dev The operator set that its court judges by.
    uint32 opset;
    Status status;
    /// @dev A block before which none of the contracts existed, and that in which they were published here.
    uint64 since;
    uint64 published;
    Parts parts;
    Codes codes;
    /// @dev Why it is not current; empty while it is.
    string reason;
}

/// @title IReleases
/// @notice Which contracts are which version of Assay: a list that only grows.
///
/// PROMISES
/// - A release stays what it was published as: its version, contracts and code hashes never change, nor does any other
///   release get its version.
/// - The publisher says whether nodes should still use a release, and why not; nothing more. It holds no ether and calls no
///   contract: no job, match, bond or ether of any release can be touched from here, and a withdrawn one works on.
/// - Anyone reads it, and checks the code that it finds against the hashes.
///
/// ASSUMPTIONS
/// - Whoever takes addresses from here trusts the publisher to name contracts that are Assay's, or compares their code with
///   a build of its own, as nodes do.
interface IReleases {
    // ------------------------------------------------------------------ events

    event Published(uint256 indexed number, string version, uint32 opset, Parts parts, Codes codes);
    event Superseded(uint256 indexed number, string reason);
    event Withdrawn(uint256 indexed number, string reason);

    // ------------------------------------------------------------------ errors

    error VersionTaken(string version);
    error NoSuchVersion(string version);
    error NoSuchRelease(uint256 number);
    error TextLength(uint256 length, uint256 most);
    error NoCode(address part);
    error FromTheFuture(uint64 since, uint256 blockNumber);
    error NotCurrent(string version, Status status);
    error AlreadyWithdrawn(string version);

    // ------------------------------------------------------------------ moves

    /// @notice Adds a release, whose contracts exist since block `since` or later. The publisher only.
    /// @return number Releases are numbered from 1.
    function publish(string calldata version, uint32 opset, uint64 since, Parts calldata parts)
        external
        returns (uint256 number);

    /// @notice There is a better one; nodes warn. The publisher only.
    function supersede(string calldata version, string calldata reason) external;

    /// @notice Nodes should not use it for anything new; they refuse to start on it. The publisher only.
    function withdraw(string calldata version, string calldata reason) external;

    // ------------------------------------------------------------------ views

    function releaseCount() external view returns (uint256);

    function releaseAt(uint256 number) external view returns (Release memory);

    function releaseOf(string calldata version) external view returns (Release memory);
}
