// Reads files that Python's pickle module wrote. Supports only what CIFAR's batches need: dictionaries with lists of
// numbers and texts, and numpy arrays. Nothing is executed: classes and functions are kept as names. The contents of a
// file are not trusted.
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
    // An object is the result of a call. Its items are the function, the arguments and, if the object has one, the
    // state.
    enum class Kind : uint8_t { kNone, kInteger, kBytes, kList, kDictionary, kName, kObject };
    Kind kind = Kind::kNone;
    int64_t integer = 0;          // value of an integer or a boolean
    std::string_view bytes = {};  // view into the file, for bytes, texts and names ("module name")
    std::vector<Id> items = {};   // the elements of lists and tuples; the keys and values of dictionaries, alternating
  };

  // `file` must outlive the result. Code::kData: the file is truncated, is not a pickle of protocol 2 or later, or has
  // an unsupported instruction.
  static Result<Pickle> parse(std::string_view file);

  [[nodiscard]] const Value& root() const { return values_[root_]; }
  [[nodiscard]] const Value& operator[](Id id) const { return values_[id]; }
  // The value whose key is this text or these bytes; null if `dictionary` is not a dictionary or lacks the key.
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
// Reads such an array. Code::kData: the value is something else.
Result<PickledBytes> byte_array(const Pickle& pickle, const Pickle::Value& value);

}  // namespace dtrain::data
