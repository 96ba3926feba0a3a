// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {IVerifierRegistry} from "./IVerifierRegistry.sol";
import {Claim, Group, Job, JobPhase, Program, Refutation, StakedClaim, Terms, Trainer} from "./JobTypes.sol";

/// @title INotary
/// @notice Checks which terms can be posted as a job, encodes them, and reads a Jobs contract's storage for its views.
/// It stores nothing, and its errors are those of IJobs.
interface INotary {
    // ------------------------------------------------------------------ views

    /// @notice Reverts unless a job may have these terms.
    /// @return programHash The hash of the program, as the job's referee computes it.
    /// @return file The terms that a job keeps as code: see `TermsFile`.
    function check(Terms calldata terms) external view returns (bytes32 programHash, bytes memory file);

    /// @notice Reverts if `claim.last` is not the last of this many checkpoints, or the URI is too long.
    /// @return commitment The commitment that the sender must have made to this claim, in this job of the caller.
    function checkClaim(
        uint256 jobId,
        address sender,
        uint64 checkpoints,
        Claim calldata claim,
        bytes32 logs,
        bytes32 salt
    ) external view returns (bytes32 commitment);

    /// @notice Checks the path and the length of the address of a refutation in a job of the caller, with the arguments
    /// of `IJobs.refute`. Returns its root: that of the claimed run tree with `computed` in place of `claimed`.
    function checkRefutation(uint256 jobId, Refutation calldata refutation, bytes32 salt)
        external
        view
        returns (bytes32 root);

    // About a job of the caller, which is a Jobs contract: see IJobs.

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

    function claimsFrom(uint256 jobId, uint256 from) external view returns (StakedClaim[] memory);

    function groupsFrom(uint256 jobId, uint256 from) external view returns (Group[] memory);

    function commitmentOf(
        uint256 jobId,
        address sender,
        bytes32 root,
        bytes32 last,
        bytes32 logs,
        bytes32 salt
    ) external view returns (bytes32);

    function programOf(uint256 jobId) external view returns (Program memory);

    function isVerifier(uint256 jobId, address account) external view returns (bool);

    /// @notice The registry whose verifiers a job may name.
    function REGISTRY() external view returns (IVerifierRegistry);

    /// @notice Units of gas that a stake must be worth, so that half of it pays for the worst dispute.
    function STAKE_GAS() external view returns (uint256);

    /// @notice The least price of a unit of gas that a job may state, in wei: the deployer's estimate for the chain.
    function MIN_FEE() external view returns (uint256);

    /// @notice The least stake of any job, in wei: `STAKE_GAS * MIN_FEE`.
    function MIN_STAKE() external view returns (uint256);

    /// @notice The shortest period or clock, in seconds: transactions on the chain must get through within it.
    function MIN_PERIOD() external view returns (uint32);
}
