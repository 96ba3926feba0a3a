// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Attributes} from "./Attributes.sol";
import {Cases} from "./Cases.sol";
import {Case, Opened} from "./IRule.sol";
import {Operands} from "./Operands.sol";
import {Point} from "./Point.sol";
import {Shapes} from "./Shapes.sol";
import {Spec, Specs} from "./Specs.sol";

/// @title Layout
/// @notice The operators that move elements unchanged (docs/opset.md, section 8).
contract Layout is Point {
    uint256 private constant RESHAPE = 70;
    uint256 private constant PERMUTE = 71;
    uint256 private constant EXPAND = 72;
    uint256 private constant SLICE = 73;
    uint256 private constant CAT = 74;
    uint256 private constant ALL = (1 << RESHAPE) | (1 << PERMUTE) | (1 << EXPAND) | (1 << SLICE)
        | (1 << CAT);
    /// @dev The most that a structure can have.
    uint256 private constant MAX_INPUTS = 255;

    function _check(Case calldata which) internal pure override {
        _source(which);
    }

    function _value(Case calldata which, Opened[] calldata opened)
        internal
        pure
        override
        returns (uint256 bits, uint256 taken)
    {
        (uint256 input, uint256 position) = _source(which);
        return (Operands.read(which, opened, 0, input, position), 1);
    }

    /// @dev Checks a case, and returns the input and the position of the element that is moved.
    function _source(Case calldata which) private pure returns (uint256 input, uint256 position) {
        Cases.mine(which, ALL, Cases.ANY);
        if (which.op == CAT) return _cat(which);
        Cases.check(which, 1, 1);
        Cases.output(which, 0, Specs.get(which.inputs, 0).dtype());
        Spec shape = Specs.get(which.inputs, 0);
        Spec result = Specs.get(which.outputs, 0);
        if (which.op == PERMUTE) return (0, _permute(which.attributes, which.element, shape, result));
        if (which.op == SLICE) return (0, _slice(which.attributes, which.element, shape, result));
        Attributes.end(which.attributes, Attributes.shape(which.attributes, 0, result));
        if (which.op == RESHAPE) {
            Shapes.fit(Shapes.count(shape) == Shapes.count(result));
            return (0, which.element);
        }
        Shapes.spreads(shape, result);
        return (0, Shapes.broadcast(which.element, result, shape));
    }

    /// @dev Output dimension d is input dimension `dims[d]`.
    function _permute(bytes calldata attributes, uint256 element, Spec shape, Spec result)
        private
        pure
        returns (uint256 position)
    {
        unchecked {
            (uint256 rank, uint256 from) = Attributes.list(attributes, 0);
            Attributes.fit(rank == shape.rank(), from);
            Shapes.fit(rank == result.rank());
            Attributes.end(attributes, from + 8 * rank);
            uint256 seen = 0;
            for (uint256 i = rank; i != 0; --i) {
                uint256 end = from + 8 * i;
                (uint256 d,) = Attributes.number(attributes, end - 8);
                Attributes.fit(d < rank && (seen >> d) & 1 == 0, end);
                seen |= 1 << d;
                uint256 size = result.dim(i - 1);
                Shapes.fit(shape.dim(d) == size);
                position += element % size * Shapes.countFrom(shape, d + 1);
                element /= size;
            }
        }
    }

    /// @dev The index along `dim` is `start + step i`.
    function _slice(bytes calldata attributes, uint256 element, Spec shape, Spec result)
        private
        pure
        returns (uint256)
    {
        (uint256 dim, uint256 from) = Attributes.number(attributes, 0);
        Attributes.fit(dim < shape.rank(), from);
        uint256 start;
        uint256 stop;
        uint256 stride;
        (start, from) = Attributes.number(attributes, from);
        (stop, from) = Attributes.number(attributes, from);
        Attributes.fit(start <= stop && stop <= shape.dim(dim), from);
        (stride, from) = Attributes.number(attributes, from);
        Attributes.fit(stride != 0 && stride < Shapes.MAX_ELEMENTS, from);
        Attributes.end(attributes, from);
        Shapes.fit(shape.rank() == result.rank());
        Shapes.sameBut(shape, result, dim);
        Shapes.fit(result.dim(dim) == (stop - start + stride - 1) / stride);
        uint256 width = Shapes.countFrom(result, dim + 1);
        uint256 outer = element / width;
        uint256 along = start + stride * (outer % result.dim(dim));
        return (outer / result.dim(dim) * shape.dim(dim) + along) * width + element % width;
    }

    /// @dev The inputs follow each other along `dim`.
    function _cat(Case calldata which) private pure returns (uint256 input, uint256 position) {
        (uint256 inputs, uint256 outputs) = Cases.counts(which);
        if (inputs == 0 || inputs > MAX_INPUTS || outputs != 1) revert Cases.WrongCounts(inputs, outputs);
        uint8 dtype = Specs.get(which.inputs, 0).dtype();
        Cases.output(which, 0, dtype);
        Spec result = Specs.get(which.outputs, 0);
        (uint256 dim, uint256 from) = Attributes.number(which.attributes, 0);
        Attributes.fit(dim < result.rank(), from);
        Attributes.end(which.attributes, from);

        uint256 width = Shapes.countFrom(result, dim + 1);
        uint256 outer = which.element / width;
        uint256 along = outer % result.dim(dim);
        uint256 joined = 0;
        Spec shape = Specs.get(which.inputs, 0);
        for (uint256 i = 0; i < inputs; ++i) {
            if (shape.dtype() != dtype) Cases.notMine(which);
            Shapes.fit(shape.rank() == result.rank());
            Shapes.sameBut(shape, result, dim);
            uint256 size = shape.dim(dim);
            if (joined <= along && along < joined + size) {
                input = i;
                position = (outer / result.dim(dim) * size + along - joined) * width + which.element % width;
            }
            joined += size;
            shape = shape.next();
        }
        Shapes.fit(joined == result.dim(dim));
    }
}
