// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

/// @notice The publisher's statement about a release. The zero state is not a release.
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

/// @notice The code hash of each contract (`extcodehash`) at the time of publication.
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
    /// @dev The version of the operator set that the release's court uses.
    uint32 opset;
    Status status;
    /// @dev A block before which none of the contracts existed, and the block in which the release was published here.
    uint64 since;
    uint64 published;
    Parts parts;
    Codes codes;
    /// @dev The reason why the release is not current; empty while it is.
    string reason;
}

/// @title IReleases
/// @notice The versions of Assay and their contracts: a list that only grows.
///
/// PROMISES
/// - A release stays as it was published: its version, contracts and code hashes never change, and no other release
///   gets its version.
/// - The publisher says whether nodes should still use a release, and why not; nothing more. This contract holds no
///   ether and calls no contract: it cannot touch a job, match, bond or ether of a release, and a withdrawn one works
///   on.
/// - Anybody can read the list, and check the deployed code against the hashes.
///
/// ASSUMPTIONS
/// - A reader of these addresses trusts the publisher to name contracts of Assay, or compares their code with a build
///   of its own, as nodes do.
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
    /// @return number The number of the release; releases are numbered from 1.
    function publish(string calldata version, uint32 opset, uint64 since, Parts calldata parts)
        external
        returns (uint256 number);

    /// @notice Marks a release for which there is a better one; nodes warn. The publisher only.
    function supersede(string calldata version, string calldata reason) external;

    /// @notice Marks a release as unfit for anything new; nodes refuse to start on it. The publisher only.
    function withdraw(string calldata version, string calldata reason) external;

    // ------------------------------------------------------------------ views

    function releaseCount() external view returns (uint256);

    function releaseAt(uint256 number) external view returns (Release memory);

    function releaseOf(string calldata version) external view returns (Release memory);
}
