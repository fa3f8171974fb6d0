// Numbers of the objects that MPI predefines (object.h): the values of their handles in the
// standard ABI, and numbers of ours for those that only other ABIs have. abi/handles.table says
// which handle each ABI has for them. A null handle is no object; its number is never registered.
#pragma once

#include "mpi/core/object.h"

namespace holdfast::mpi {

enum CommNumber : std::int32_t {
  kCommNull = 0x100,
  kCommWorld = 0x101,
  kCommSelf = 0x102,
};
enum GroupNumber : std::int32_t {
  kGroupNull = 0x108,
  kGroupEmpty = 0x109,
};
enum OpNumber : std::int32_t {
  kOpNull = 0x020,
  kOpSum = 0x021,
  kOpMin = 0x022,
  kOpMax = 0x023,
  kOpProd = 0x024,
  kOpBand = 0x028,
  kOpBor = 0x029,
  kOpBxor = 0x02a,
  kOpLand = 0x030,
  kOpLor = 0x031,
  kOpLxor = 0x032,
  kOpMinloc = 0x038,
  kOpMaxloc = 0x039,
  kOpReplace = 0x03c,
  kOpNoOp = 0x03d,
};
enum TypeNumber : std::int32_t {
  kTypeNull = 0x200,
  kTypeAint = 0x201,
  kTypeCount = 0x202,
  kTypeOffset = 0x203,
  kTypePacked = 0x207,
  kTypeShort = 0x208,
  kTypeInt = 0x209,
  kTypeLong = 0x20a,
  kTypeLongLong = 0x20b,
  kTypeUnsignedShort = 0x20c,
  kTypeUnsigned = 0x20d,
  kTypeUnsignedLong = 0x20e,
  kTypeUnsignedLongLong = 0x20f,
  kTypeFloat = 0x210,
  kTypeCFloatComplex = 0x212,
  kTypeCxxFloatComplex = 0x213,
  kTypeDouble = 0x214,
  kTypeCDoubleComplex = 0x216,
  kTypeCxxDoubleComplex = 0x217,
  kTypeLogical = 0x218,
  kTypeInteger = 0x219,
  kTypeReal = 0x21a,
  kTypeComplex = 0x21b,
  kTypeDoublePrecision = 0x21c,
  kTypeDoubleComplex = 0x21d,
  kTypeCharacter = 0x21e,
  kTypeLongDouble = 0x220,
  kTypeCLongDoubleComplex = 0x224,
  kTypeCxxLongDoubleComplex = 0x225,
  kTypeFloatInt = 0x228,
  kTypeDoubleInt = 0x229,
  kTypeLongInt = 0x22a,
  kTypeTwoInt = 0x22b,
  kTypeShortInt = 0x22c,
  kTypeLongDoubleInt = 0x22d,
  kTypeTwoReal = 0x230,
  kTypeTwoDoublePrecision = 0x231,
  kTypeTwoInteger = 0x232,
  kTypeCBool = 0x238,
  kTypeCxxBool = 0x239,
  kTypeWchar = 0x23c,
  kTypeInt8T = 0x240,
  kTypeUint8T = 0x241,
  kTypeChar = 0x243,
  kTypeSignedChar = 0x244,
  kTypeUnsignedChar = 0x245,
  kTypeByte = 0x247,
  kTypeInt16T = 0x248,
  kTypeUint16T = 0x249,
  kTypeInt32T = 0x250,
  kTypeUint32T = 0x251,
  kTypeInt64T = 0x258,
  kTypeUint64T = 0x259,
  kTypeLogical1 = 0x2c0,
  kTypeInteger1 = 0x2c1,
  kTypeLogical2 = 0x2c8,
  kTypeInteger2 = 0x2c9,
  kTypeReal2 = 0x2ca,
  kTypeLogical4 = 0x2d0,
  kTypeInteger4 = 0x2d1,
  kTypeReal4 = 0x2d2,
  kTypeComplex4 = 0x2d3,
  kTypeLogical8 = 0x2d8,
  kTypeInteger8 = 0x2d9,
  kTypeReal8 = 0x2da,
  kTypeComplex8 = 0x2db,
  kTypeLogical16 = 0x2e0,
  kTypeInteger16 = 0x2e1,
  kTypeReal16 = 0x2e2,
  kTypeComplex16 = 0x2e3,
  kTypeComplex32 = 0x2eb,
  kTypeLb = 0x300,
  kTypeUb = 0x301,
  kTypeTwoComplex = 0x302,
  kTypeTwoDoubleComplex = 0x303,
  kTypeFLongDoubleComplex = 0x304,  // of Fortran, in Open MPI alone
  kTypeCFloat16 = 0x305,
  kTypeBfloat16 = 0x306,
};
enum RequestNumber : std::int32_t {
  kRequestNull = 0x180,
};
enum MessageNumber : std::int32_t {
  kMessageNull = 0x128,
  kMessageNoProc = 0x129,
};
enum InfoNumber : std::int32_t {
  kInfoNull = 0x130,
  kInfoEnv = 0x131,
};
enum ErrhandlerNumber : std::int32_t {
  kErrhandlerNull = 0x140,
  kErrorsAreFatal = 0x141,
  kErrorsAbort = 0x142,
  kErrorsReturn = 0x143,
};
enum SessionNumber : std::int32_t {
  kSessionNull = 0x120,
};
static_assert(kTypeBfloat16 < kFirstMade);

class Registry;

// The objects of the process. The first use makes it, and in it what MPI predefines, by the
// functions below; each is written where the class of its objects is.
Registry& registry();

void predefine_types(Registry& registry);
void predefine_ops(Registry& registry);
void predefine_groups(Registry& registry);
void predefine_infos(Registry& registry);
void predefine_errhandlers(Registry& registry);
void predefine_comms(Registry& registry);  // which have no group until MPI is initialized
void predefine_messages(Registry& registry);

}  // namespace holdfast::mpi
