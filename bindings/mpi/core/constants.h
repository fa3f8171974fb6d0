// Constants as the implementation sees them: those of the MPI-5 ABI. The other ABIs translate on
// the way in and out (bindings/mpi/abi).
#pragma once

#include <cstdint>

namespace holdfast::mpi {

// Error classes. Codes that a program adds begin at kFirstUserError.
enum ErrorClass : int {
  kSuccess = 0,
  kErrBuffer = 1,
  kErrCount = 2,
  kErrType = 3,
  kErrTag = 4,
  kErrComm = 5,
  kErrRank = 6,
  kErrRequest = 7,
  kErrRoot = 8,
  kErrGroup = 9,
  kErrOp = 10,
  kErrTopology = 11,
  kErrDims = 12,
  kErrArg = 13,
  kErrUnknown = 14,
  kErrTruncate = 15,
  kErrOther = 16,
  kErrIntern = 17,
  kErrPending = 18,
  kErrInStatus = 19,
  kErrAccess = 20,
  kErrAmode = 21,
  kErrAssert = 22,
  kErrBadFile = 23,
  kErrBase = 24,
  kErrConversion = 25,
  kErrDisp = 26,
  kErrDupDatarep = 27,
  kErrFileExists = 28,
  kErrFileInUse = 29,
  kErrFile = 30,
  kErrInfoKey = 31,
  kErrInfoNoKey = 32,
  kErrInfoValue = 33,
  kErrInfo = 34,
  kErrIo = 35,
  kErrKeyval = 36,
  kErrLocktype = 37,
  kErrName = 38,
  kErrNoMem = 39,
  kErrNotSame = 40,
  kErrNoSpace = 41,
  kErrNoSuchFile = 42,
  kErrPort = 43,
  kErrQuota = 44,
  kErrReadOnly = 45,
  kErrRmaAttach = 46,
  kErrRmaConflict = 47,
  kErrRmaRange = 48,
  kErrRmaShared = 49,
  kErrRmaSync = 50,
  kErrService = 51,
  kErrSize = 52,
  kErrSpawn = 53,
  kErrUnsupportedDatarep = 54,
  kErrUnsupportedOperation = 55,
  kErrWin = 56,
  kErrRmaFlavor = 57,
  kErrProcAborted = 58,
  kErrValueTooLarge = 59,
  kErrSession = 60,
  kErrErrhandler = 61,
  kErrAbi = 62,
};
inline constexpr int kFirstUserError = 0x4000;  // the ABI's MPI_ERR_LASTCODE + 1

inline constexpr int kAnySource = -1;
inline constexpr int kAnyTag = -2;
inline constexpr int kProcNull = -3;
inline constexpr int kRoot = -4;
inline constexpr int kUndefined = -32766;
// Tags and their upper bound, which all ABIs have.
inline constexpr int kMostTag = 0x7fffffff;

// In place of an address.
inline void* const kInPlace = reinterpret_cast<void*>(1);
inline void* const kBottom = nullptr;
inline void* const kBufferAutomatic = reinterpret_cast<void*>(2);
// In place of arrays of weights.
inline void* const kUnweighted = reinterpret_cast<void*>(10);
inline void* const kWeightsEmpty = reinterpret_cast<void*>(11);

enum Comparison : int { kIdent = 201, kCongruent = 202, kSimilar = 203, kUnequal = 204 };
enum TopologyKind : int { kCart = 211, kGraph = 212, kDistGraph = 213 };
enum Order : int { kOrderC = 12, kOrderFortran = 15 };
enum Distribution : int { kDistributeNone = 16, kDistributeBlock = 17, kDistributeCyclic = 18 };
// The one value that is not the standard's, whose 19 may be an argument that is meant.
inline constexpr int kDistributeDefaultArg = -49767;
enum SplitType : int {
  kSplitShared = 221,
  kSplitHwUnguided = 222,
  kSplitHwGuided = 223,
  kSplitResourceGuided = 224
};
enum TypeClass : int { kClassInteger = 192, kClassReal = 193, kClassComplex = 194 };
enum ThreadLevel : int {
  kThreadSingle = 0,
  kThreadFunneled = 1024,
  kThreadSerialized = 2048,
  kThreadMultiple = 4096
};
enum Combiner : int {
  kCombinerNamed = 101,
  kCombinerDup = 102,
  kCombinerContiguous = 103,
  kCombinerVector = 104,
  kCombinerHvector = 105,
  kCombinerIndexed = 106,
  kCombinerHindexed = 107,
  kCombinerIndexedBlock = 108,
  kCombinerHindexedBlock = 109,
  kCombinerStruct = 110,
  kCombinerSubarray = 111,
  kCombinerDarray = 112,
  kCombinerF90Real = 113,
  kCombinerF90Complex = 114,
  kCombinerF90Integer = 115,
  kCombinerResized = 116,
  kCombinerValueIndex = 117
};
// Predefined attributes.
enum Keyval : int {
  kKeyvalInvalid = 0,
  kTagUb = 501,
  kIo = 502,
  kHost = 503,
  kWtimeIsGlobal = 504,
  kAppnum = 505,
  kLastUsedCode = 506,
  kUniverseSize = 507
};

}  // namespace holdfast::mpi
