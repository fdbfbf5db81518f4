// Tests element types, operations, and which operations each type allows.
#include <doctest/doctest.h>

#include <map>
#include <set>
#include <string>

#include "base/dtype.h"
#include "base/reduce_op.h"

namespace rondo {
namespace types_test {

TEST_CASE("The numbers of types and operations are fixed: they go over the wire") {
  CHECK(static_cast<int>(DataType::kInt8) == 1);
  CHECK(static_cast<int>(DataType::kUint8) == 2);
  CHECK(static_cast<int>(DataType::kInt32) == 3);
  CHECK(static_cast<int>(DataType::kUint32) == 4);
  CHECK(static_cast<int>(DataType::kInt64) == 5);
  CHECK(static_cast<int>(DataType::kUint64) == 6);
  CHECK(static_cast<int>(DataType::kFloat16) == 7);
  CHECK(static_cast<int>(DataType::kBfloat16) == 8);
  CHECK(static_cast<int>(DataType::kFloat32) == 9);
  CHECK(static_cast<int>(DataType::kFloat64) == 10);
  CHECK(static_cast<int>(DataType::kBool) == 11);
  CHECK(kAllDataTypes.size() == 11);
  CHECK(static_cast<int>(ReduceOp::kSum) == 1);
  CHECK(static_cast<int>(ReduceOp::kProd) == 2);
  CHECK(static_cast<int>(ReduceOp::kMin) == 3);
  CHECK(static_cast<int>(ReduceOp::kMax) == 4);
  CHECK(static_cast<int>(ReduceOp::kAvg) == 5);
  CHECK(static_cast<int>(ReduceOp::kBand) == 6);
  CHECK(static_cast<int>(ReduceOp::kBor) == 7);
  CHECK(static_cast<int>(ReduceOp::kBxor) == 8);
  CHECK(static_cast<int>(ReduceOp::kPremulSum) == 9);
  CHECK(kAllReduceOps.size() == 9);
}

TEST_CASE("Sizes are those of the elements in memory") {
  const std::map<std::string, std::size_t> sizes{
      {"int8", 1},   {"uint8", 1},   {"bool", 1},    {"float16", 2}, {"bfloat16", 2}, {"int32", 4},
      {"uint32", 4}, {"float32", 4}, {"float64", 8}, {"int64", 8},   {"uint64", 8},
  };
  for (DataType type : kAllDataTypes) {
    const std::string name(Name(type));
    CAPTURE(name);
    REQUIRE(sizes.count(name) == 1);
    CHECK(SizeOf(type) == sizes.at(name));
    CHECK(IsFloating(type) == (name.find("float") != std::string::npos));
  }
}

TEST_CASE("Every type and operation has a name of its own, which reads back") {
  std::set<std::string> names;
  for (DataType type : kAllDataTypes) {
    CHECK(names.insert(std::string(Name(type))).second);
    CHECK(ParseDataType(Name(type)) == type);
  }
  for (ReduceOp op : kAllReduceOps) {
    CHECK(names.insert(std::string(Name(op))).second);
    CHECK(ParseReduceOp(Name(op)) == op);
  }
  CHECK(Name(ReduceOp::kPremulSum) == "premul_sum");
}

TEST_CASE("Anything but the exact name is refused") {
  for (const char* name : {"", "float", "Float32", "float32 ", "int16", "unknown", "sum"}) CHECK(!ParseDataType(name));
  for (const char* name : {"", "SUM", "add", "premul", "unknown", "float32"}) CHECK(!ParseReduceOp(name));
}

TEST_CASE("A number that no type or operation has is called unknown") {
  CHECK(Name(static_cast<DataType>(0)) == "unknown");
  CHECK(Name(static_cast<DataType>(200)) == "unknown");
  CHECK(SizeOf(static_cast<DataType>(200)) == 0);
  CHECK(Name(static_cast<ReduceOp>(200)) == "unknown");
}

TEST_CASE("Users' operations have numbers of their own, a name each, and every type") {
  CHECK(static_cast<int>(UserOp(0)) == 128);
  std::set<std::string> names;
  for (int index = 0; index < kMaxUserOps; ++index) {
    const ReduceOp op = UserOp(index);
    CHECK(IsUserDefined(op));
    CHECK(UserOpIndex(op) == index);
    CHECK(names.insert(std::string(Name(op))).second);
    CHECK(!ParseReduceOp(Name(op)));
    for (DataType type : kAllDataTypes) CHECK(CheckPairing(type, op));
  }
  CHECK(Name(UserOp(0)) == "user_0");
  CHECK(Name(UserOp(63)) == "user_63");
  for (ReduceOp op : kAllReduceOps) CHECK(!IsUserDefined(op));
  CHECK(!IsUserDefined(static_cast<ReduceOp>(kFirstUserOp + kMaxUserOps)));
}

TEST_CASE("Integers have everything but premul_sum, floats no bitwise operation, bool only order and logic") {
  //                                       sum prod min max avg band bor bxor premul_sum, as in kAllReduceOps
  const std::map<std::string, std::string> table{
      {"int8", "yyyyyyyy-"},    {"uint8", "yyyyyyyy-"},   {"int32", "yyyyyyyy-"},   {"uint32", "yyyyyyyy-"},
      {"int64", "yyyyyyyy-"},   {"uint64", "yyyyyyyy-"},  {"float16", "yyyyy---y"}, {"bfloat16", "yyyyy---y"},
      {"float32", "yyyyy---y"}, {"float64", "yyyyy---y"}, {"bool", "--yy-yyy-"},
  };
  for (DataType type : kAllDataTypes)
    for (std::size_t i = 0; i < kAllReduceOps.size(); ++i) {
      CAPTURE(std::string(Name(type)));
      CAPTURE(std::string(Name(kAllReduceOps[i])));
      CHECK(CheckPairing(type, kAllReduceOps[i]).has_value() == (table.at(std::string(Name(type)))[i] == 'y'));
    }
}

TEST_CASE("A senseless pairing is an argument error that names both") {
  const Status status = CheckPairing(DataType::kBool, ReduceOp::kSum);
  REQUIRE(!status.has_value());
  CHECK(status.error().ToString() == "invalid_argument: operation sum is not defined on type bool");
}

}  // namespace types_test
}  // namespace rondo
