// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Modes} from "../commit/Modes.sol";
import {Types} from "../commit/Types.sol";
import {Case, IRule} from "./IRule.sol";
import {Shapes} from "./Shapes.sol";
import {Specs} from "./Specs.sol";

/// @title Cases
/// @notice What is checked of every case, whatever its operator, and of every step.
library Cases {
    // Dtypes: docs/protocol.md, section 2.
    uint8 internal constant F32 = 1;
    uint8 internal constant I64 = 2;
    uint8 internal constant BOOL = 3;

    // Arithmetics that a rule is of.
    uint256 internal constant REPOPS_F32 = 1;
    uint256 internal constant ROUNDED_F64 = 2; // with all its parameters
    uint256 internal constant EITHER = 3;

    /// @dev Of the longest chain that there may be (docs/opset.md, section 1).
    uint256 internal constant MAX_STEPS = 1 << 30;

    /// @notice The operator has another number of inputs, or of outputs.
    error WrongCounts(uint256 inputs, uint256 outputs);
    /// @notice The output does not exist, or has no such element.
    error NoSuchElement(uint8 output, uint64 element);
    /// @notice An element of the operator could take more than `MAX_STEPS` steps.
    error ChainTooLong(uint256 steps);

    /// @notice The rule is of the case's mode, and the operator is one of the family's.
    /// @param operators Bit `op` stands for operator `op`.
    /// @param modes A set of REPOPS_F32 and ROUNDED_F64.
    function mine(Case calldata which, uint256 operators, uint256 modes) internal pure {
        uint256 mode =
            which.mode == Modes.REPOPS_F32 ? REPOPS_F32 : Modes.rounded(which.mode) ? ROUNDED_F64 : 0;
        if (mode & modes == 0 || (operators >> which.op) & 1 == 0) notMine(which);
    }

    /// @notice As many tensors as said, each within the limits of docs/opset.md, section 1, and the element exists.
    /// INVARIANT: what exists in the case has a row-major position below 2^40.
    function check(Case calldata which, uint256 inputs, uint256 outputs) internal pure {
        (uint256 nin, uint256 nout) = counts(which);
        if (nin != inputs || nout != outputs) revert WrongCounts(nin, nout);
    }

    /// @notice The same of a case with any number of tensors, and how many there are.
    function counts(Case calldata which) internal pure returns (uint256 inputs, uint256 outputs) {
        (inputs,) = _tensors(which.inputs, 0);
        uint256 elements;
        (outputs, elements) = _tensors(which.outputs, which.output);
        if (which.element >= elements) revert NoSuchElement(which.output, which.element);
    }

    /// @dev How many types there are, each of which a tensor may have; and the elements of tensor `number`, none if it is not there.
    function _tensors(bytes calldata types, uint256 number)
        private
        pure
        returns (uint256 count, uint256 elements)
    {
        unchecked {
            for (uint256 from = 0; from < types.length; ++count) {
                uint256 end = Types.end(types, from);
                uint256 found = Shapes.count(Specs.from(types, from));
                if (count == number) elements = found;
                from = end;
            }
        }
    }

    /// @notice An element's chain is not longer than one may be.
    function chain(uint256 steps) internal pure {
        if (steps > MAX_STEPS) revert ChainTooLong(steps);
    }

    /// @notice Input `i` has this dtype.
    function input(Case calldata which, uint256 i, uint8 dtype) internal pure {
        if (Specs.get(which.inputs, i).dtype() != dtype) notMine(which);
    }

    /// @notice Output `i` has this dtype, which is one.
    function output(Case calldata which, uint256 i, uint8 dtype) internal pure {
        if (Specs.get(which.outputs, i).dtype() != dtype || dtype < F32 || dtype > BOOL) notMine(which);
    }

    /// @notice Step `t` is one of the chain's, and the state before it has its size.
    function step(uint64 t, uint256 steps, uint256 given, uint256 wanted) internal pure {
        // SAFETY: a chain has at most MAX_STEPS.
        if (t >= steps) revert IRule.NoSuchStep(t, uint64(steps));
        state(given, wanted);
    }

    /// @notice A state has its size.
    function state(uint256 given, uint256 wanted) internal pure {
        if (given != wanted) revert IRule.BadState(given, wanted);
    }

    function notMine(Case calldata which) internal pure {
        revert IRule.NotMine(which.op, which.mode);
    }
}
