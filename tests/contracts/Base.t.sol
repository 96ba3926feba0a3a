// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

/// @notice Gas of a call; in isolation, of a transaction.
struct Gas {
    uint64 gasLimit;
    uint64 gasTotalUsed;
    uint64 gasMemoryUsed;
    int64 gasRefunded;
    uint64 gasRemaining;
}

/// @notice An event.
struct Log {
    bytes32[] topics;
    bytes data;
    address emitter;
}

/// @notice A read or write of a word of storage.
struct WordAccess {
    address account;
    bytes32 slot;
    bool isWrite;
    bytes32 previousValue;
    bytes32 newValue;
    bool reverted;
}

struct ChainInfo {
    uint256 forkId;
    uint256 chainId;
}

/// @notice What is done with an account. Later kinds only look at it.
enum AccessKind {
    Call,
    DelegateCall,
    CallCode,
    StaticCall,
    Create,
    SelfDestruct,
    Resume,
    Balance,
    Extcodesize,
    Extcodehash,
    Extcodecopy
}

/// @notice A call of an account or a look at it, with the words that its code reads and writes.
struct AccountAccess {
    ChainInfo chain;
    AccessKind kind;
    address account;
    address accessor;
    bool initialized;
    uint256 oldBalance;
    uint256 newBalance;
    bytes deployedCode;
    uint256 value;
    bytes data;
    bool reverted;
    WordAccess[] words;
    uint64 depth;
    uint64 oldNonce;
    uint64 newNonce;
}

/// @notice The cheatcodes that the tests use.
interface Vm {
    function addr(uint256 key) external pure returns (address);
    function chainId(uint256 id) external;
    function deal(address account, uint256 balance) external;
    /// @dev Sets the base fee of the block, in wei for a unit of gas.
    function fee(uint256 baseFee) external;
    function etch(address account, bytes calldata code) external;
    function expectPartialRevert(bytes4 selector) external;
    function expectRevert(bytes calldata reason) external;
    function expectRevert() external;
    function parseJson(string calldata json, string calldata key) external pure returns (bytes memory);
    function parseJsonAddress(string calldata json, string calldata key) external pure returns (address);
    function parseJsonBytes(string calldata json, string calldata key) external pure returns (bytes memory);
    function parseJsonBytes32(string calldata json, string calldata key) external pure returns (bytes32);
    function parseJsonBytes32Array(string calldata json, string calldata key)
        external
        pure
        returns (bytes32[] memory);
    function parseJsonUint(string calldata json, string calldata key) external pure returns (uint256);
    function parseJsonUintArray(string calldata json, string calldata key)
        external
        pure
        returns (uint256[] memory);
    function getRecordedLogs() external returns (Log[] memory);
    function recordLogs() external;
    function getBlockTimestamp() external view returns (uint256);
    function getCode(string calldata artifact) external view returns (bytes memory);
    function lastCallGas() external view returns (Gas memory);
    function prank(address sender) external;
    function startPrank(address sender) external;
    function startStateDiffRecording() external;
    function stopAndReturnStateDiff() external returns (AccountAccess[] memory);
    function stopPrank() external;
    function readFile(string calldata path) external view returns (string memory);
    function sign(uint256 key, bytes32 digest) external pure returns (uint8 v, bytes32 r, bytes32 s);
    function snapshotGasLastCall(string calldata group, string calldata name) external returns (uint256);
    function snapshotValue(string calldata group, string calldata name, uint256 value) external;
    function toString(uint256 value) external pure returns (string memory);
    function warp(uint256 instant) external;
}

/// @title Base
/// @notice Checks and shorthands shared by all tests.
abstract contract Base {
    Vm internal constant vm = Vm(address(uint160(uint256(keccak256("hevm cheat code")))));

    error Different(string what, bytes32 have, bytes32 want);
    error NotSo(string what);

    function eq(bytes32 have, bytes32 want, string memory what) internal pure {
        if (have != want) revert Different(what, have, want);
    }

    function eq(uint256 have, uint256 want, string memory what) internal pure {
        eq(bytes32(have), bytes32(want), what);
    }

    function eq(address have, address want, string memory what) internal pure {
        eq(bytes32(uint256(uint160(have))), bytes32(uint256(uint160(want))), what);
    }

    function yes(bool holds, string memory what) internal pure {
        if (!holds) revert NotSo(what);
    }

    /// @dev Expects the next call to be refused with this error, with any arguments.
    function refuses(bytes4 selector) internal {
        vm.expectPartialRevert(selector);
    }

    function pass(uint256 duration) internal {
        vm.warp(currentSecond() + duration);
    }

    /// @dev Returns the second. NOTE: a function that reads `block.timestamp` twice may get the first value again.
    function currentSecond() internal view returns (uint256) {
        return vm.getBlockTimestamp();
    }

    /// @dev Deploys from the compiler's output: with `new`, the contract would be compiled into every test again.
    function deploy(string memory artifact, bytes memory arguments) internal returns (address account) {
        bytes memory code = abi.encodePacked(vm.getCode(artifact), arguments);
        assembly ("memory-safe") {
            account := create(0, add(code, 0x20), mload(code))
            if iszero(account) {
                returndatacopy(0, 0, returndatasize())
                revert(0, returndatasize())
            }
        }
    }

    function bound(uint256 x, uint256 min, uint256 max) internal pure returns (uint256) {
        return min + x % (max - min + 1);
    }
}
