// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Ball, Entry, Grid} from "contracts/float/Grid.sol";
import {Kulisch, Sum} from "contracts/float/Kulisch.sol";

/// @notice Many calls of Kulisch and Grid at a time, for comparisons with Python (tests/twins/float/exact.py packs and
/// unpacks). Words are big-endian; a sum is three, as Kulisch.encode has it.
contract KulischBatch {
    using Kulisch for Sum;

    /// @notice Returns sum and magnitude of packed terms, added in pieces of this many bytes.
    function sums(bytes calldata terms, uint256 piece) external pure returns (bytes memory) {
        Sum memory sum;
        Sum memory magnitude;
        for (uint256 i = 0; i < terms.length; i += piece) {
            uint256 end = i + piece < terms.length ? i + piece : terms.length;
            (sum, magnitude) = sum.addTerms(magnitude, terms[i:end]);
        }
        return bytes.concat(sum.encode(), magnitude.encode());
    }

    /// @notice Adds terms one by one; returns the sums and the set of exponents.
    function steps(bytes calldata terms) external pure returns (bytes memory, uint256) {
        Sum memory sum;
        for (uint256 i = 0; i < terms.length; i += 8) {
            sum = sum.addProduct(uint32(bytes4(terms[i:])), uint32(bytes4(terms[i + 4:])));
        }
        return (sum.encode(), Kulisch.exponents(terms));
    }

    /// @notice For pairs of sums, 192 bytes each, returns: a + b, -a, |a|, and a compared with b as a word.
    function pairs(bytes calldata data) external pure returns (bytes memory out) {
        out = new bytes(data.length * 320 / 192 - data.length * 320 / 192 % 32);
        uint256 offset;
        for (uint256 i = 0; i < data.length; i += 192) {
            Sum memory a = Kulisch.decode(data[i:i + 96]);
            Sum memory b = Kulisch.decode(data[i + 96:i + 192]);
            bytes memory one = bytes.concat(
                a.add(b).encode(), a.negate().encode(), a.absolute().encode(), bytes32(uint256(a.compare(b)))
            );
            for (uint256 k = 32; k <= 320; k += 32) {
                assembly ("memory-safe") {
                    mstore(add(add(out, 0x20), offset), mload(add(one, k)))
                }
                offset += 32;
            }
        }
    }

    /// @notice For cases of 256 bytes: sum, magnitude, then one word (numerator u64, denominator u64, kind u8, b u8,
    /// value u32), then an unused word. Returns the bits of each element and its gas, four bytes each.
    function decide(bytes calldata data) external view returns (bytes memory out) {
        out = new bytes(data.length / 32);
        uint256 free;
        assembly ("memory-safe") {
            // Memory is freed after each case, and paid for here.
            free := mload(0x40)
            mstore(add(free, 0x10000), 0)
        }
        for (uint256 i = 0; i < data.length; i += 256) {
            (uint256 bits, uint256 gas) = _decided(data[i:i + 256]);
            _store(out, i / 32, bits);
            _store(out, i / 32 + 4, gas);
            assembly ("memory-safe") {
                mstore(0x40, free)
            }
        }
    }

    function _decided(bytes calldata data) private view returns (uint256 bits, uint256 gas) {
        uint256 word = uint256(bytes32(data[192:]));
        Ball memory ball = Ball(
            Kulisch.decode(data[:96]), Kulisch.decode(data[96:192]), uint64(word >> 192), uint64(word >> 128)
        );
        Entry memory entry = Entry(uint8(word >> 120), uint32(word));
        uint256 b = uint8(word >> 112);
        gas = gasleft();
        bits = Grid.decide(ball, entry, b);
        gas -= gasleft();
    }

    /// @notice For cases of 128 bytes: lo, hi, exponent, then one word (kind u8, b u8, value u32). Undecided:
    /// 0xffffffff.
    function decideBracket(bytes calldata data) external view returns (bytes memory out) {
        out = new bytes(data.length / 32);
        for (uint256 i = 0; i < data.length; i += 128) {
            (int256 lo, int256 hi, int256 exponent, uint256 word) =
                abi.decode(data[i:i + 128], (int256, int256, int256, uint256));
            uint256 bits = 0xffffffff;
            try this.bracket(lo, hi, exponent, word) returns (uint256 decided) {
                bits = decided;
            } catch (bytes memory reason) {
                require(bytes4(reason) == Grid.Undecided.selector, "another error");
            }
            _store(out, i / 32, bits);
        }
    }

    function bracket(int256 lo, int256 hi, int256 exponent, uint256 word) external pure returns (uint256) {
        Entry memory entry = Entry(uint8(word >> 120), uint32(word));
        return Grid.decideBracket(lo, hi, exponent, entry, uint8(word >> 112));
    }

    /// @notice Rounds binary64 bits, eight bytes each, to grid(b); four bytes each.
    function roundBits64(bytes calldata data, uint256 b) external pure returns (bytes memory out) {
        out = new bytes(data.length / 2);
        for (uint256 i = 0; i < data.length; i += 8) {
            _store(out, i / 2, Grid.roundBits64(uint64(bytes8(data[i:])), b));
        }
    }

    /// @notice Rounds a sum down, to nearest and up.
    function toGrid(bytes calldata data, uint256 b) external pure returns (uint256, uint256, uint256) {
        Sum memory sum = Kulisch.decode(data);
        return (Grid.toGrid(sum, b, 0), Grid.toGrid(sum, b, 1), Grid.toGrid(sum, b, 2));
    }

    function gamma(uint256[] calldata counts, bool probable) external pure returns (uint256[] memory out) {
        out = new uint256[](counts.length);
        for (uint256 i = 0; i < counts.length; ++i) {
            (uint256 numerator, uint256 denominator) = Grid.gamma(counts[i], probable);
            out[i] = numerator << 128 | denominator;
        }
    }

    function isAddedExactly(uint256 set, bytes calldata magnitude) external pure returns (bool) {
        return Kulisch.isAddedExactly(set, Kulisch.decode(magnitude));
    }

    function _store(bytes memory out, uint256 offset, uint256 bits) private pure {
        assembly ("memory-safe") {
            let place := add(add(out, 0x20), offset)
            mstore(place, or(shl(224, bits), shr(32, shl(32, mload(place)))))
        }
    }
}
