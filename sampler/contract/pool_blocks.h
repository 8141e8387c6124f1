// Blocks of pools (include/holdfast.h) in tables.
#ifndef HOLDFAST_SAMPLER_CONTRACT_POOL_BLOCKS_H_
#define HOLDFAST_SAMPLER_CONTRACT_POOL_BLOCKS_H_

#include <cstdint>

namespace holdfast {

// Such a block is known apart from a block of malloc that may begin at the same address, as the pool's first does: it stands at twice its
// address, which no block has, in a part of the address space that is nobody's.
inline constexpr uint64_t kOfPools = uint64_t{1} << 48;
inline constexpr uint64_t KeyOfPoolBlock(uint64_t address) { return address << 1 | kOfPools; }
// Of any live block.
inline constexpr uint64_t AddressOfBlock(uint64_t key) { return (key & kOfPools) != 0 ? (key ^ kOfPools) >> 1 : key; }

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_POOL_BLOCKS_H_
