// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Convert} from "../float/Convert.sol";
import {Attributes} from "./Attributes.sol";
import {Cases} from "./Cases.sol";
import {Case, Opened} from "./IRule.sol";
import {Operands} from "./Operands.sol";
import {Point} from "./Point.sol";
import {Shapes} from "./Shapes.sol";
import {Spec, Specs} from "./Specs.sol";
import {Values} from "./Values.sol";

/// @title Sources
/// @notice Tensors without inputs of data: `full`, `arange` and `philox` (docs/opset.md, section 9).
contract Sources is Point {
    uint256 private constant FULL = 80;
    uint256 private constant ARANGE = 81;
    uint256 private constant PHILOX = 82;
    /// @dev Exclusive bound.
    uint256 private constant MAX_SITES = 1 << 24;

    uint256 private constant WORD = 0xFFFFFFFF;
    // Constants of Philox 4x32-10 (Salmon et al., 2011).
    uint256 private constant ROUNDS = 10;
    uint256 private constant M0 = 0xD2511F53;
    uint256 private constant M1 = 0xCD9E8D57;
    uint256 private constant W0 = 0x9E3779B9;
    uint256 private constant W1 = 0xBB67AE85;

    function _check(Case calldata which) internal pure override {
        _attribute(which);
    }

    /// @dev Checks a case; returns `bits` of `full`, the length of `arange`, and `site` of `philox`.
    function _attribute(Case calldata which) private pure returns (uint256 found) {
        Cases.mine(which, (1 << FULL) | (1 << ARANGE) | (1 << PHILOX), Cases.ANY);
        bool random = which.op == PHILOX;
        Cases.check(which, random ? 2 : 0, 1);
        Spec shape = Specs.get(which.outputs, 0);
        bytes calldata attributes = which.attributes;
        uint256 from;
        if (which.op == ARANGE) {
            (found, from) = Attributes.number(attributes, 0);
            Attributes.end(attributes, from);
            Cases.output(which, 0, Cases.I64);
            Shapes.fit(shape.rank() == 1 && shape.dim(0) == found);
            return found;
        }
        uint8 dtype;
        (dtype, from) = Attributes.code(attributes, Attributes.shape(attributes, 0, shape));
        Cases.output(which, 0, dtype);
        (found, from) = Attributes.number(attributes, from);
        Attributes.end(attributes, from);
        if (random) {
            if (dtype != Cases.F32 && dtype != Cases.I64) Cases.notMine(which);
            Cases.input(which, 0, Cases.I64);
            Cases.input(which, 1, Cases.I64);
            Shapes.fit(Specs.get(which.inputs, 0).rank() + Specs.get(which.inputs, 1).rank() == 0);
            Attributes.fit(found < MAX_SITES, from);
        } else {
            Attributes.fit(found >> Values.width(dtype) == 0, from);
        }
    }

    function _value(Case calldata which, Opened[] calldata opened)
        internal
        pure
        override
        returns (uint256 bits, uint256 taken)
    {
        bits = _attribute(which);
        uint8 dtype = Specs.get(which.outputs, 0).dtype();
        if (which.op == ARANGE) return (which.element, 0);
        if (which.op == FULL) return (Values.canonical(dtype, bits), 0);
        uint256 seed = Operands.read(which, opened, 0, 0, 0);
        uint256 step = Operands.read(which, opened, 1, 1, 0);
        uint256 word = _philox(seed, step, bits, which.element);
        return (dtype == Cases.F32 ? _fraction(word >> 8) : word, 2);
    }

    /// @dev Returns word `element mod 4` of block `element div 4`.
    function _philox(uint256 seed, uint256 step, uint256 site, uint256 element)
        private
        pure
        returns (uint256)
    {
        unchecked {
            uint256 c0 = (element >> 2) & WORD;
            uint256 c1 = (element >> 34) + (site << 8);
            uint256 c2 = step & WORD;
            uint256 c3 = step >> 32;
            uint256 k0 = seed & WORD;
            uint256 k1 = seed >> 32;
            for (uint256 i = 0; i < ROUNDS; ++i) {
                uint256 p0 = M0 * c0;
                uint256 p1 = M1 * c2;
                (c0, c1) = ((p1 >> 32) ^ c1 ^ k0, p1 & WORD);
                (c2, c3) = ((p0 >> 32) ^ c3 ^ k1, p0 & WORD);
                (k0, k1) = ((k0 + W0) & WORD, (k1 + W1) & WORD);
            }
            if (element & 2 == 0) return element & 1 == 0 ? c0 : c1;
            return element & 1 == 0 ? c2 : c3;
        }
    }

    /// @dev Returns `n 2^-24` for n below 2^24. Both steps are exact; an exponent is in units of 2^23.
    function _fraction(uint256 n) private pure returns (uint256) {
        unchecked {
            return n == 0 ? 0 : Convert.i64ToF32(n) - (24 << 23);
        }
    }
}
