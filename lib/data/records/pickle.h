// Reads what Python's pickle module wrote: as much of it as CIFAR's batches need, which are dictionaries with lists of
// numbers and texts, and arrays of numpy. Nothing is executed: classes and functions are names. Files may contain
// anything.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace dtrain::data {

class Pickle {
 public:
  using Id = uint32_t;
  struct Value {
    // An object was made by a call; its items are the function, the arguments and, if it has one, the state.
    enum class Kind : uint8_t { kNone, kInteger, kBytes, kList, kDictionary, kName, kObject };
    Kind kind = Kind::kNone;
    int64_t integer = 0;          // also of booleans
    std::string_view bytes = {};  // of the file: of bytes, texts and names ("module name")
    std::vector<Id> items = {};   // of lists and tuples; of dictionaries keys and values in turn
  };

  // `file` must outlive the result. Code::kData: it is cut, is no pickle of protocol 2 or later, or has an instruction
  // that is not read.
  static Result<Pickle> parse(std::string_view file);

  [[nodiscard]] const Value& root() const { return values_[root_]; }
  [[nodiscard]] const Value& operator[](Id id) const { return values_[id]; }
  // The value of a text or bytes as key; null if `dictionary` is none or lacks it.
  [[nodiscard]] const Value* find(const Value& dictionary, std::string_view key) const;

 private:
  friend class PickleMachine;
  std::vector<Value> values_;
  Id root_ = 0;
};

// An array of bytes with two dimensions, as numpy pickles it.
struct PickledBytes {
  int64_t rows = 0, columns = 0;
  std::string_view bytes;  // rows * columns, row by row
};
// Code::kData: the value is something else.
Result<PickledBytes> byte_array(const Pickle& pickle, const Pickle::Value& value);

}  // namespace dtrain::data
