// Blocks of the program's own pools (include/holdfast.h) in tables.
#ifndef HOLDFAST_SAMPLER_CONTRACT_POOL_BLOCKS_H_
#define HOLDFAST_SAMPLER_CONTRACT_POOL_BLOCKS_H_

#include <cstdint>

namespace holdfast {

// A pool's first block may begin at the same address as a block of malloc. So pool blocks have keys of their own: twice
// their address, which has up to 49 bits, and a bit that no block's address has. Larger addresses exist only where a
// program asks the kernel for one. A higher bit would not fit an entry of the ShadowDirectory.
inline constexpr uint64_t kOfPools = uint64_t{1} << 50;
inline constexpr uint64_t KeyOfPoolBlock(uint64_t address) { return address << 1 | kOfPools; }
// Returns the address of any live block.
inline constexpr uint64_t AddressOfBlock(uint64_t key) { return (key & kOfPools) != 0 ? (key ^ kOfPools) >> 1 : key; }

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_POOL_BLOCKS_H_
