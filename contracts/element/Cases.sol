// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Modes} from "../commit/Modes.sol";
import {Types} from "../commit/Types.sol";
import {Case, IRule} from "./IRule.sol";
import {Shapes} from "./Shapes.sol";
import {Specs} from "./Specs.sol";

/// @title Cases
/// @notice The checks of every case and every step, for all operators.
library Cases {
    // Dtypes: docs/protocol.md, section 2.
    uint8 internal constant F32 = 1;
    uint8 internal constant I64 = 2;
    uint8 internal constant BOOL = 3;
    uint8 internal constant BF16 = 4;

    // Sets of the arithmetics of a rule.
    uint256 internal constant REPOPS_F32 = Modes.REPOPS_F32;
    uint256 internal constant EXACT = Modes.EXACT;
    uint256 internal constant ROUNDED_F64 = 4; // with all its parameters
    uint256 internal constant TC16 = 8;
    uint256 internal constant ANY = 15;
    /// @dev The same but for contractions of bf16.
    uint256 internal constant ORDERED = REPOPS_F32 | TC16;

    /// @dev Steps of the longest possible chain (docs/opset.md, section 1).
    uint256 internal constant MAX_STEPS = 1 << 30;

    /// @notice The operator has another number of inputs or outputs.
    error WrongCounts(uint256 inputs, uint256 outputs);
    /// @notice The output does not exist, or has no such element.
    error NoSuchElement(uint8 output, uint64 element);
    /// @notice An element of the operator could take more than `MAX_STEPS` steps.
    error ChainTooLong(uint256 steps);

    /// @notice Checks that the rule has the case's mode, and that the operator is one of its family.
    /// @param operators Bit `op` stands for operator `op`.
    /// @param modes A set of REPOPS_F32, EXACT, ROUNDED_F64 and TC16.
    function mine(Case calldata which, uint256 operators, uint256 modes) internal pure {
        // NOTE: the bytes of the first two modes are the sets of themselves.
        uint256 mode = which.mode;
        if (mode > Modes.EXACT) {
            mode = mode == Modes.TC16 ? TC16 : Modes.rounded(which.mode) ? ROUNDED_F64 : 0;
        }
        if (mode & modes == 0 || (operators >> which.op) & 1 == 0) notMine(which);
    }

    /// @notice Checks the numbers of tensors, their limits (docs/opset.md, section 1), and that the element exists.
    /// INVARIANT: everything that exists in the case has a row-major position below 2^40.
    function check(Case calldata which, uint256 inputs, uint256 outputs) internal pure {
        (uint256 nin, uint256 nout) = counts(which);
        if (nin != inputs || nout != outputs) revert WrongCounts(nin, nout);
    }

    /// @notice Makes the same checks of a case with any numbers of tensors, and returns these numbers.
    function counts(Case calldata which) internal pure returns (uint256 inputs, uint256 outputs) {
        (inputs,) = _tensors(which.inputs, 0);
        uint256 elements;
        (outputs, elements) = _tensors(which.outputs, which.output);
        if (which.element >= elements) revert NoSuchElement(which.output, which.element);
    }

    /// @dev Counts the types, each of which must be a tensor's, and the elements of tensor `number`, if it exists.
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

    /// @notice Checks that an element's chain is not too long.
    function chain(uint256 steps) internal pure {
        if (steps > MAX_STEPS) revert ChainTooLong(steps);
    }

    /// @notice Checks that input `i` has this dtype.
    function input(Case calldata which, uint256 i, uint8 dtype) internal pure {
        if (Specs.get(which.inputs, i).dtype() != dtype) notMine(which);
    }

    /// @notice Checks that output `i` has this dtype, and that the dtype exists.
    function output(Case calldata which, uint256 i, uint8 dtype) internal pure {
        if (Specs.get(which.outputs, i).dtype() != dtype || dtype < F32 || dtype > BF16) notMine(which);
    }

    /// @notice Checks that the chain has step `t`, and that the state before it has the right size.
    function step(uint64 t, uint256 steps, uint256 given, uint256 wanted) internal pure {
        // SAFETY: a chain has at most MAX_STEPS.
        if (t >= steps) revert IRule.NoSuchStep(t, uint64(steps));
        state(given, wanted);
    }

    /// @notice Checks the size of a state.
    function state(uint256 given, uint256 wanted) internal pure {
        if (given != wanted) revert IRule.BadState(given, wanted);
    }

    function notMine(Case calldata which) internal pure {
        revert IRule.NotMine(which.op, which.mode);
    }
}
