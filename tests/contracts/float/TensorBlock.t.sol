// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Base} from "../Base.t.sol";
import {TensorBlock} from "contracts/float/TensorBlock.sol";

/// @notice The cheatcodes for text, which only these tests use.
interface Text {
    function parseBytes(string calldata text) external pure returns (bytes memory);
    function split(string calldata text, string calldata by) external pure returns (string[] memory);
}

/// @notice Blocks of tensor cores, pair by pair: what a device gave (tensor-core-h200.txt), and special values by the rule
/// in integers (tensor-block-special.txt, which tests/referee_py/element/test_tensor.py makes again).
contract TensorBlockTest is Base {
    Text private constant TEXT = Text(address(vm));
    uint256 private constant INFINITE = 0x7F800000;
    uint256 private constant NAN = 0x7FC00000;

    /// @dev Returns a block of pairs of bf16, four digits each, and an accumulator.
    function _block(bytes memory a, bytes memory b, uint256 c) private pure returns (uint256) {
        (uint256 e, uint256 flags) = TensorBlock.opened(c);
        for (uint256 i = 0; i < a.length; i += 2) {
            (e, flags) = TensorBlock.widen(e, flags, _narrow(a, i), _narrow(b, i));
        }
        uint256 sum = TensorBlock.begun(e, 0, c);
        for (uint256 i = 0; i < a.length; i += 2) {
            sum = TensorBlock.accumulate(e, sum, _narrow(a, i), _narrow(b, i));
        }
        return TensorBlock.rounded(e, flags, sum);
    }

    function _narrow(bytes memory data, uint256 i) private pure returns (uint256) {
        return (uint256(uint8(data[i])) << 8) | uint8(data[i + 1]);
    }

    function _hex(string memory digits) private pure returns (bytes memory) {
        return TEXT.parseBytes(string.concat("0x", digits));
    }

    function _wide(string memory digits) private pure returns (uint256) {
        return uint32(bytes4(_hex(digits)));
    }

    /// @dev Compares all rows of a file: the last four words of each are a, b, c and the result.
    function _compare(string memory path) private view returns (uint256 rows) {
        string[] memory lines = TEXT.split(vm.readFile(path), "\n");
        for (uint256 i = 0; i < lines.length; ++i) {
            if (bytes(lines[i]).length == 0 || bytes(lines[i])[0] == "#") continue;
            string[] memory words = TEXT.split(lines[i], " ");
            uint256 last = words.length - 1;
            uint256 result = _wide(words[last]);
            if (result & 0x7FFFFFFF > INFINITE) result = NAN;
            eq(_block(_hex(words[last - 3]), _hex(words[last - 2]), _wide(words[last - 1])), result, lines[i]);
            ++rows;
        }
    }

    function test_whatADeviceGave() public view {
        eq(_compare("tests/vectors/tensor-core-h200.txt"), 13 * 3 * 64, "rows");
    }

    function test_specialValues() public view {
        eq(_compare("tests/vectors/tensor-block-special.txt"), 1_200, "rows");
    }

    /// @dev All words, whatever they are: a result, and never a NaN but the one that is committed.
    function testFuzz_everyStateHasAResult(uint16 e, uint8 flags, uint40 sum, uint16 a, uint16 b, uint32 c)
        public
        pure
    {
        (uint256 wider, uint256 more) = TensorBlock.widen(e, flags, a, b);
        yes(wider >= e && more & flags == flags, "terms only widen");
        yes(wider <= e || wider <= 508, "up to the exponent of the largest product");
        yes(TensorBlock.accumulate(e, sum, a, b) <= TensorBlock.SUM, "sums have 40 bits");
        yes(TensorBlock.begun(e, sum, c) <= TensorBlock.SUM, "also from c on");
        uint256 result = TensorBlock.rounded(e, flags, sum);
        yes(result <= type(uint32).max, "a binary32");
        yes(result & 0x7FFFFFFF <= INFINITE || result == NAN, "one NaN");
        yes(result != 0x80000000, "no -0");
    }
}
