// The chain of `assay demo --chain hardhat`: as anvil's, with a block each second and the limits of Ethereum.

module.exports = {
  networks: {
    hardhat: {
      chainId: 31337,
      hardfork: "osaka",
      accounts: { mnemonic: "test test test test test test test test test test test junk", count: 20 },
      mining: { auto: false, interval: 1000 },
      blockGasLimit: 30_000_000,
    },
  },
};
