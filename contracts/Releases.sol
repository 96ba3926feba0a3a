// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Codes, IReleases, Parts, Release, Status} from "./interfaces/IReleases.sol";
import {Ownable, Ownable2Step} from "@openzeppelin/contracts/access/Ownable2Step.sol";

/// @title Releases
/// @notice See IReleases. The owner is the publisher.
contract Releases is IReleases, Ownable2Step {
    // ------------------------------------------------------------------ storage

    /// @notice Long enough for any version and for one sentence, short enough to show.
    uint256 public constant MAX_VERSION = 32;
    uint256 public constant MAX_REASON = 256;
    /// @dev The hash of empty code, which an account without code has once it was paid.
    bytes32 private constant EMPTY_CODE = keccak256("");

    Release[] private _releases;
    mapping(bytes32 versionHash => uint256 number) private _numberOf;

    // ------------------------------------------------------------------ constructor

    constructor(address publisher) Ownable(publisher) {}

    // ------------------------------------------------------------------ moves

    function publish(string calldata version, uint32 opset, uint64 since, Parts calldata parts)
        external
        onlyOwner
        returns (uint256 number)
    {
        _checkLength(version, MAX_VERSION);
        bytes32 key = keccak256(bytes(version));
        if (_numberOf[key] != 0) revert VersionTaken(version);
        if (since > block.number) revert FromTheFuture(since, block.number);
        Codes memory codes = Codes({
            jobs: _codeOf(parts.jobs),
            referee: _codeOf(parts.referee),
            panel: _codeOf(parts.panel),
            court: _codeOf(parts.court),
            registry: _codeOf(parts.registry),
            dataAvailability: _codeOf(parts.dataAvailability),
            watch: _codeOf(parts.watch),
            timekeeper: _codeOf(parts.timekeeper)
        });

        _releases.push(Release(version, opset, Status.Current, since, uint64(block.number), parts, codes, ""));
        number = _releases.length;
        _numberOf[key] = number;
        emit Published(number, version, opset, parts, codes);
    }

    function supersede(string calldata version, string calldata reason) external onlyOwner {
        _checkLength(reason, MAX_REASON);
        (uint256 number, Release storage release) = _named(version);
        if (release.status != Status.Current) revert NotCurrent(version, release.status);

        (release.status, release.reason) = (Status.Superseded, reason);
        emit Superseded(number, reason);
    }

    function withdraw(string calldata version, string calldata reason) external onlyOwner {
        _checkLength(reason, MAX_REASON);
        (uint256 number, Release storage release) = _named(version);
        if (release.status == Status.Withdrawn) revert AlreadyWithdrawn(version);

        (release.status, release.reason) = (Status.Withdrawn, reason);
        emit Withdrawn(number, reason);
    }

    // ------------------------------------------------------------------ views

    function releaseCount() external view returns (uint256) {
        return _releases.length;
    }

    function releaseAt(uint256 number) external view returns (Release memory) {
        if (number == 0 || number > _releases.length) revert NoSuchRelease(number);
        return _releases[number - 1];
    }

    function releaseOf(string calldata version) external view returns (Release memory release) {
        (, release) = _named(version);
    }

    // ------------------------------------------------------------------ inside

    function _named(string calldata version) private view returns (uint256 number, Release storage release) {
        number = _numberOf[keccak256(bytes(version))];
        if (number == 0) revert NoSuchVersion(version);
        release = _releases[number - 1];
    }

    function _codeOf(address part) private view returns (bytes32 hash) {
        hash = part.codehash;
        if (hash == 0 || hash == EMPTY_CODE) revert NoCode(part);
    }

    /// @dev Reverts if the text is empty or too long.
    function _checkLength(string calldata text, uint256 most) private pure {
        uint256 length = bytes(text).length;
        if (length == 0 || length > most) revert TextLength(length, most);
    }
}
