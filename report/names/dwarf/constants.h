// The DWARF constants that we read: versions 2 to 5, and GNU's extensions to version 4 (split DWARF, dwz). The names
// are those of the standard (DWARF 5, section 7), without DW_.
#ifndef HOLDFAST_REPORT_NAMES_DWARF_CONSTANTS_H_
#define HOLDFAST_REPORT_NAMES_DWARF_CONSTANTS_H_

#include <cstdint>

namespace holdfast::dwarf {

enum Tag : uint16_t {
  kTagArrayType = 0x01,
  kTagClassType = 0x02,
  kTagMember = 0x0d,
  kTagCompileUnit = 0x11,
  kTagStructureType = 0x13,
  kTagTypedef = 0x16,
  kTagUnionType = 0x17,
  kTagInheritance = 0x1c,
  kTagInlinedSubroutine = 0x1d,
  kTagSubrangeType = 0x21,
  kTagConstType = 0x26,
  kTagSubprogram = 0x2e,
  kTagVariable = 0x34,
  kTagVolatileType = 0x35,
  kTagNamespace = 0x39,
  kTagPartialUnit = 0x3c,
  kTagAtomicType = 0x47,
  kTagCallSite = 0x48,
  kTagSkeletonUnit = 0x4a,
  kTagGnuCallSite = 0x4109,
};

enum Attribute : uint16_t {
  kAtSibling = 0x01,
  kAtLocation = 0x02,
  kAtName = 0x03,
  kAtByteSize = 0x0b,
  kAtStmtList = 0x10,
  kAtLowPc = 0x11,
  kAtHighPc = 0x12,
  kAtLanguage = 0x13,
  kAtCompDir = 0x1b,
  kAtUpperBound = 0x2f,
  kAtAbstractOrigin = 0x31,
  kAtCount = 0x37,
  kAtDataMemberLocation = 0x38,
  kAtDeclFile = 0x3a,
  kAtDeclLine = 0x3b,
  kAtDeclaration = 0x3c,
  kAtSpecification = 0x47,
  kAtType = 0x49,
  kAtRanges = 0x55,
  kAtCallFile = 0x58,
  kAtCallLine = 0x59,
  kAtLinkageName = 0x6e,
  kAtStrOffsetsBase = 0x72,
  kAtAddrBase = 0x73,
  kAtRnglistsBase = 0x74,
  kAtDwoName = 0x76,
  kAtCallReturnPc = 0x7d,
  kAtCallOrigin = 0x7f,
  kAtCallPc = 0x81,
  kAtMipsLinkageName = 0x2007,
  kAtGnuDwoName = 0x2130,
  kAtGnuDwoId = 0x2131,
  kAtGnuRangesBase = 0x2132,
  kAtGnuAddrBase = 0x2133,
};

// C and assembler: function names are not qualified.
inline constexpr uint64_t kLanguagesOfC[] = {0x01, 0x02, 0x0c, 0x1d, 0x2c, 0x3e, 0x8001};

enum Form : uint16_t {
  kFormAddr = 0x01,
  kFormBlock2 = 0x03,
  kFormBlock4 = 0x04,
  kFormData2 = 0x05,
  kFormData4 = 0x06,
  kFormData8 = 0x07,
  kFormString = 0x08,
  kFormBlock = 0x09,
  kFormBlock1 = 0x0a,
  kFormData1 = 0x0b,
  kFormFlag = 0x0c,
  kFormSdata = 0x0d,
  kFormStrp = 0x0e,
  kFormUdata = 0x0f,
  kFormRefAddr = 0x10,
  kFormRef1 = 0x11,
  kFormRef2 = 0x12,
  kFormRef4 = 0x13,
  kFormRef8 = 0x14,
  kFormRefUdata = 0x15,
  kFormIndirect = 0x16,
  kFormSecOffset = 0x17,
  kFormExprloc = 0x18,
  kFormFlagPresent = 0x19,
  kFormStrx = 0x1a,
  kFormAddrx = 0x1b,
  kFormRefSup4 = 0x1c,
  kFormStrpSup = 0x1d,
  kFormData16 = 0x1e,
  kFormLineStrp = 0x1f,
  kFormRefSig8 = 0x20,
  kFormImplicitConst = 0x21,
  kFormLoclistx = 0x22,
  kFormRnglistx = 0x23,
  kFormRefSup8 = 0x24,
  kFormStrx1 = 0x25,
  kFormStrx2 = 0x26,
  kFormStrx3 = 0x27,
  kFormStrx4 = 0x28,
  kFormAddrx1 = 0x29,
  kFormAddrx2 = 0x2a,
  kFormAddrx3 = 0x2b,
  kFormAddrx4 = 0x2c,
  kFormGnuAddrIndex = 0x1f01,
  kFormGnuStrIndex = 0x1f02,
  kFormGnuRefAlt = 0x1f20,
  kFormGnuStrpAlt = 0x1f21,
};

// The operations of a location that refer to an address.
enum Operation : uint8_t {
  kOpAddr = 0x03,
  kOpAddrx = 0xa1,
  kOpGnuAddrIndex = 0xfb,
};

enum UnitType : uint8_t {
  kUnitCompile = 1,
  kUnitType = 2,
  kUnitPartial = 3,
  kUnitSkeleton = 4,
  kUnitSplitCompile = 5,
  kUnitSplitType = 6,
};

enum RangeListEntry : uint8_t {
  kRleEndOfList = 0,
  kRleBaseAddressx = 1,
  kRleStartxEndx = 2,
  kRleStartxLength = 3,
  kRleOffsetPair = 4,
  kRleBaseAddress = 5,
  kRleStartEnd = 6,
  kRleStartLength = 7,
};

enum LineOpcode : uint8_t {
  kLnsExtended = 0,
  kLnsCopy = 1,
  kLnsAdvancePc = 2,
  kLnsAdvanceLine = 3,
  kLnsSetFile = 4,
  kLnsSetColumn = 5,
  kLnsNegateStmt = 6,
  kLnsSetBasicBlock = 7,
  kLnsConstAddPc = 8,
  kLnsFixedAdvancePc = 9,
  kLnsSetPrologueEnd = 10,
  kLnsSetEpilogueBegin = 11,
  kLnsSetIsa = 12,
};

enum LineExtended : uint8_t {
  kLneEndSequence = 1,
  kLneSetAddress = 2,
  kLneDefineFile = 3,
};

enum LineContent : uint8_t {
  kLnctPath = 1,
  kLnctDirectoryIndex = 2,
};

// Columns in the index of a package of split units (.dwp). A column that exists in both versions has the same number.
enum PackageSection : uint32_t {
  kSectInfo = 1,
  kSectAbbrev = 3,
  kSectStrOffsets = 6,
  kSectRnglists = 8,
};

}  // namespace holdfast::dwarf

#endif  // HOLDFAST_REPORT_NAMES_DWARF_CONSTANTS_H_
