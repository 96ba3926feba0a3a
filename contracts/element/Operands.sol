// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Float32} from "../float/Float32.sol";
import {Cases} from "./Cases.sol";
import {Case, IRule, Opened} from "./IRule.sol";
import {Specs} from "./Specs.sol";
import {Values} from "./Values.sol";

/// @title Operands
/// @notice Opened operand elements, given to a rule in the order in which it reads them.
library Operands {
    /// @notice The input's dtype has no value with these bits: a binary32 is below 2^32, a bf16 below 2^16, a
    /// bool is 0 or 1.
    error NotOfDtype(uint8 input, uint64 element, uint64 bits);

    /// @notice Returns the bits of element `element` of input `input`, which must have been opened as number `place`.
    /// Every NaN is read as 0x7FC00000, of bf16 as 0x7FC0.
    function read(
        Case calldata which,
        Opened[] calldata opened,
        uint256 place,
        uint256 input,
        uint256 element
    ) internal pure returns (uint256) {
        return read(Specs.get(which.inputs, input).dtype(), opened, place, input, element);
    }

    /// @notice The same, for a caller that knows the input's dtype.
    function read(uint8 dtype, Opened[] calldata opened, uint256 place, uint256 input, uint256 element)
        internal
        pure
        returns (uint256 bits)
    {
        // SAFETY: a case has at most 255 inputs, and positions are below 2^40.
        if (place >= opened.length) revert IRule.NotOpened(uint8(input), uint64(element));
        Opened calldata given = opened[place];
        if (given.input != input || given.element != element) {
            revert IRule.NotOpened(uint8(input), uint64(element));
        }
        bits = given.bits;
        // NOTE: most operands are i64, f32 or bf16, so these come first.
        if (dtype == Cases.I64) return bits;
        if (dtype == Cases.F32 && bits >> 32 == 0) return Float32.isNan(bits) ? Float32.NAN : bits;
        if (dtype == Cases.BF16 && bits >> 16 == 0) {
            return Float32.isNan(bits << 16) ? Float32.NAN >> 16 : bits;
        }
        if (bits >> Values.width(dtype) != 0) revert NotOfDtype(given.input, given.element, given.bits);
        return Values.canonical(dtype, bits);
    }

    /// @notice Checks that no further operands have been opened.
    function end(Opened[] calldata opened, uint256 taken) internal pure {
        if (opened.length != taken) revert IRule.NotTaken(opened.length, taken);
    }
}
