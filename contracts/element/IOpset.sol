// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {IRule} from "./IRule.sol";

/// @title IOpset
/// @notice The rule of each operator.
interface IOpset {
    /// @notice The opset has no rule for this operator in this mode.
    error NoRule(uint16 op, uint8 mode);

    /// @notice The opset's version, as programs name it.
    function version() external view returns (uint32);

    /// @notice Returns the rule of an operator in a mode; reverts if there is none.
    function rule(uint16 op, uint8 mode) external view returns (IRule);
}
