// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Base} from "../Base.t.sol";
import {Case, Entry, IRule, Opened} from "contracts/element/IRule.sol";

/// @notice Builders of cases, and the gas of a call of a rule with one.
abstract contract RuleCases is Base {
    uint8 internal constant F32 = 1;
    uint8 internal constant I64 = 2;
    uint8 internal constant BF16 = 4;
    uint64 internal constant HALF = 0x3F000000;
    uint64 internal constant PI = 0x40490FDB;
    uint64 internal constant SUBNORMAL = 0x00412345;
    // Of bf16.
    uint64 internal constant NARROW_HALF = 0x3F00;
    uint64 internal constant NARROW_PI = 0x4049;

    Case internal _case;
    Opened[] internal _opened;

    // ------------------------------------------------------------------ builders

    function _operator(uint16 op, bytes memory attributes) internal {
        delete _case;
        delete _opened;
        (_case.op, _case.mode, _case.attributes) = (op, 1, attributes);
    }

    function _input(uint8 dtype, uint64[] memory dims) internal {
        _case.inputs = abi.encodePacked(_case.inputs, _type(dtype, dims));
    }

    function _output(uint8 dtype, uint64[] memory dims, uint64 element) internal {
        _case.outputs = abi.encodePacked(_case.outputs, _type(dtype, dims));
        _case.element = element;
    }

    function _type(uint8 dtype, uint64[] memory dims) internal pure returns (bytes memory) {
        return abi.encodePacked(dtype, _ints(dims));
    }

    function _open(uint8 input, uint64 element, uint64 bits) internal {
        _opened.push(Opened(input, element, bits));
    }

    function _dims() internal pure returns (uint64[] memory) {
        return new uint64[](0);
    }

    function _dims(uint64 a) internal pure returns (uint64[] memory dims) {
        dims = new uint64[](1);
        dims[0] = a;
    }

    function _dims(uint64 a, uint64 b) internal pure returns (uint64[] memory dims) {
        dims = new uint64[](2);
        (dims[0], dims[1]) = (a, b);
    }

    function _dims(uint64 a, uint64 b, uint64 c) internal pure returns (uint64[] memory dims) {
        dims = new uint64[](3);
        (dims[0], dims[1], dims[2]) = (a, b, c);
    }

    function _dims(uint64 a, uint64 b, uint64 c, uint64 d) internal pure returns (uint64[] memory dims) {
        dims = new uint64[](4);
        (dims[0], dims[1], dims[2], dims[3]) = (a, b, c, d);
    }

    /// @dev Returns as many dimensions as allowed, all of one size.
    function _eight(uint64 size) internal pure returns (uint64[] memory dims) {
        dims = new uint64[](8);
        for (uint256 d = 0; d < 8; ++d) {
            dims[d] = size;
        }
    }

    function _ints(uint64[] memory values) internal pure returns (bytes memory encoded) {
        encoded = abi.encodePacked(uint8(values.length));
        for (uint256 i = 0; i < values.length; ++i) {
            encoded = abi.encodePacked(encoded, values[i]);
        }
    }

    /// @dev Returns stride, padding, dilation.
    function _window() internal pure returns (bytes memory) {
        return abi.encodePacked(_ints(_dims(1, 1)), _ints(_dims(1, 1)), _ints(_dims(1, 1)));
    }

    /// @dev Returns 32-bit words that are all `word`.
    function _state(uint256 words, uint32 word) internal pure returns (bytes memory state) {
        for (uint256 i = 0; i < words; ++i) {
            state = abi.encodePacked(state, word);
        }
    }

    /// @dev Builds term k of an element in the second row and the first column.
    function _product(uint64 k, uint64 a, uint64 b) internal {
        _product(F32, k, a, b);
    }

    function _product(uint8 dtype, uint64 k, uint64 a, uint64 b) internal {
        _operator(50, "");
        _input(dtype, _dims(64, 4096));
        _input(dtype, _dims(4096, 1024));
        _output(dtype, _dims(64, 1024), 1024);
        _open(0, 4096 + k, a);
        _open(1, k * 1024, b);
    }

    /// @dev Builds a `sum` over all elements.
    function _sum(uint64 items, uint64 element, uint64 bits) internal {
        _operator(40, abi.encodePacked(_ints(_dims(0)), uint64(0)));
        _input(F32, _dims(items));
        _output(F32, _dims(), 0);
        _open(0, element, bits);
    }

    function _rule(string memory family) internal returns (IRule) {
        return IRule(deploy(string.concat(family, ".sol:", family), ""));
    }

    function _saved(string memory family, string memory name, uint64 t, bytes memory state)
        internal
        returns (bytes memory next)
    {
        next = _rule(family).step(_case, t, state, _opened);
        vm.snapshotGasLastCall("element", string.concat(family, ", ", name));
    }

    function _savedFinish(string memory family, string memory name, bytes memory state, Entry memory entry)
        internal
    {
        _rule(family).finish(_case, state, entry);
        vm.snapshotGasLastCall("element", string.concat(family, ", ", name));
    }
}
