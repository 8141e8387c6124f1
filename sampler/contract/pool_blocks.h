// Blocks of the program's own pools (include/holdfast.h) in tables.
#ifndef HOLDFAST_SAMPLER_CONTRACT_POOL_BLOCKS_H_
#define HOLDFAST_SAMPLER_CONTRACT_POOL_BLOCKS_H_

#include <cstdint>

namespace holdfast {

// A pool's first block may begin at the same address as a block of malloc. So pool blocks have keys of their own: twice
// their address, in a part of the address space that no block uses.
inline constexpr uint64_t kOfPools = uint64_t{1} << 48;
inline constexpr uint64_t KeyOfPoolBlock(uint64_t address) { return address << 1 | kOfPools; }
// Returns the address of any live block.
inline constexpr uint64_t AddressOfBlock(uint64_t key) { return (key & kOfPools) != 0 ? (key ^ kOfPools) >> 1 : key; }

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_POOL_BLOCKS_H_
