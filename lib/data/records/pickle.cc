#include "data/records/pickle.h"

#include <unordered_map>

namespace dtrain::data {
namespace {

constexpr size_t kInstructionsMax = size_t{1} << 22;  // limit per file; CIFAR's files have some 50,000

// Opcodes from Lib/pickle.py.
enum : uint8_t {
  kProto = 0x80,
  kFrame = 0x95,
  kStop = '.',
  kMark = '(',
  kEmptyDictionary = '}',
  kEmptyList = ']',
  kEmptyTuple = ')',
  kTuple = 't',
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kAppend = 'a',
  kAppends = 'e',
  kSetItem = 's',
  kSetItems = 'u',
  kNone = 'N',
  kTrue = 0x88,
  kFalse = 0x89,
  kInteger1 = 'K',
  kInteger2 = 'M',
  kInteger4 = 'J',
  kShortString = 'U',
  kString = 'T',
  kShortBytes = 'C',
  kBytes = 'B',
  kBytes8 = 0x8e,
  kUnicode = 'X',
  kShortUnicode = 0x8c,
  kGlobal = 'c',
  kStackGlobal = 0x93,
  kReduce = 'R',
  kBuild = 'b',
  kPut1 = 'q',
  kPut4 = 'r',
  kMemoize = 0x94,
  kGet1 = 'h',
  kGet4 = 'j',
};

}  // namespace

// Executes the instructions on a stack of values.
class PickleMachine {
 public:
  explicit PickleMachine(std::string_view file) : rest_(file) {}

  Result<Pickle> run() {
    for (size_t count = 0; count < kInstructionsMax; count++) {
      DT_TRY(const uint64_t code, number(1));
      if (code == kStop) return end();
      DT_TRY_VOID(carry_out(static_cast<uint8_t>(code)));
    }
    return fail(Code::kData, "the pickle has more than {} instructions", kInstructionsMax);
  }

 private:
  using Id = Pickle::Id;
  using Kind = Pickle::Value::Kind;

  static tl::unexpected<Error> damaged() { return fail(Code::kData, "the pickle is damaged"); }

  Result<Pickle> end() {
    DT_TRY(pickle_.root_, pop());
    return std::move(pickle_);
  }

  Result<std::string_view> bytes(uint64_t count) {
    if (count > rest_.size()) return fail(Code::kData, "the pickle ends early");
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

  // A number of `size` bytes, in little-endian order.
  Result<uint64_t> number(size_t size) {
    DT_TRY(const std::string_view digits, bytes(size));
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++) value |= uint64_t{static_cast<unsigned char>(digits[i])} << (8 * i);
    return value;
  }

  Result<> push(Pickle::Value value) {
    stack_.push_back(static_cast<Id>(pickle_.values_.size()));
    pickle_.values_.push_back(std::move(value));
    return {};
  }

  Result<Id> pop() {
    if (stack_.empty() || (!marks_.empty() && marks_.back() == stack_.size())) return damaged();
    const Id id = stack_.back();
    stack_.pop_back();
    return id;
  }

  // The values after the last mark.
  Result<std::vector<Id>> pop_mark() {
    if (marks_.empty() || marks_.back() > stack_.size()) return damaged();
    std::vector<Id> items(stack_.begin() + static_cast<ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }

  Result<std::vector<Id>> pop_last(size_t count) {
    std::vector<Id> items(count);
    for (size_t i = count; i-- > 0;) {
      DT_TRY(items[i], pop());
    }
    return items;
  }

  Result<> push_tuple(size_t count) {
    DT_TRY(std::vector<Id> items, pop_last(count));
    return push({.kind = Kind::kList, .items = std::move(items)});
  }

  Result<> push_marked_tuple() {
    DT_TRY(std::vector<Id> items, pop_mark());
    return push({.kind = Kind::kList, .items = std::move(items)});
  }

  Result<> push_bytes(size_t size_of_length) {
    DT_TRY(const uint64_t length, number(size_of_length));
    DT_TRY(const std::string_view text, bytes(length));
    return push({.kind = Kind::kBytes, .bytes = text});
  }

  // Reads "module\nname\n".
  Result<> push_global() {
    const size_t first = rest_.find('\n');
    const size_t second = first == std::string_view::npos ? first : rest_.find('\n', first + 1);
    if (second == std::string_view::npos) return damaged();
    DT_TRY(const std::string_view name, bytes(second + 1));
    return push({.kind = Kind::kName, .bytes = name.substr(0, second)});
  }

  Result<> push_name_on_stack() {
    DT_TRY(const Id name, pop());
    DT_TRY(const Id module, pop());
    return push({.kind = Kind::kName, .bytes = pickle_[name].bytes, .items = {module}});
  }

  Result<> add_to_top(Kind kind, const std::vector<Id>& items) {
    DT_TRY(const Id container, pop());
    stack_.push_back(container);
    Pickle::Value& value = pickle_.values_[container];
    if (value.kind != kind) return damaged();
    value.items.insert(value.items.end(), items.begin(), items.end());
    return {};
  }

  Result<> add_last(Kind kind, size_t count) {
    DT_TRY(const std::vector<Id> items, pop_last(count));
    return add_to_top(kind, items);
  }

  Result<> add_marked(Kind kind) {
    DT_TRY(const std::vector<Id> items, pop_mark());
    if (kind == Kind::kDictionary && items.size() % 2 != 0) return damaged();
    return add_to_top(kind, items);
  }

  Result<> call() {
    DT_TRY(const Id arguments, pop());
    DT_TRY(const Id function, pop());
    return push({.kind = Kind::kObject, .items = {function, arguments}});
  }

  Result<> remember(uint64_t place) {
    if (stack_.empty()) return damaged();
    memo_[place] = stack_.back();
    return {};
  }

  Result<> recall(uint64_t place) {
    const auto found = memo_.find(place);
    if (found == memo_.end()) return damaged();
    stack_.push_back(found->second);
    return {};
  }

  Result<> carry_out(uint8_t code) {
    switch (code) {
      case kMark: marks_.push_back(stack_.size()); return {};
      case kEmptyDictionary: return push({.kind = Kind::kDictionary});
      case kEmptyList:
      case kEmptyTuple: return push({.kind = Kind::kList});
      case kTuple1: return push_tuple(1);
      case kTuple2: return push_tuple(2);
      case kTuple3: return push_tuple(3);
      case kTuple: return push_marked_tuple();
      case kAppend: return add_last(Kind::kList, 1);
      case kAppends: return add_marked(Kind::kList);
      case kSetItem: return add_last(Kind::kDictionary, 2);
      case kSetItems: return add_marked(Kind::kDictionary);
      case kNone: return push({});
      case kTrue: return push({.kind = Kind::kInteger, .integer = 1});
      case kFalse: return push({.kind = Kind::kInteger});
      case kReduce: return call();
      case kBuild: return add_last(Kind::kObject, 1);
      case kGlobal: return push_global();
      case kStackGlobal: return push_name_on_stack();
      case kMemoize: return remember(memo_.size());
      default: return carry_out_with_operand(code);
    }
  }

  static size_t bytes_of_operand(uint8_t code) {
    switch (code) {
      case kInteger2: return 2;
      case kInteger4:
      case kPut4:
      case kGet4: return 4;
      case kFrame: return 8;
      default: return 1;
    }
  }

  // Executes an instruction that is followed by a number or a text.
  Result<> carry_out_with_operand(uint8_t code) {
    switch (code) {
      case kShortString:
      case kShortBytes:
      case kShortUnicode: return push_bytes(1);
      case kString:
      case kBytes:
      case kUnicode: return push_bytes(4);
      case kBytes8: return push_bytes(8);
      default: break;
    }
    DT_TRY(const uint64_t operand, number(bytes_of_operand(code)));
    switch (code) {
      case kProto:
      case kFrame: return {};
      case kInteger1:
      case kInteger2: return push({.kind = Kind::kInteger, .integer = static_cast<int64_t>(operand)});
      case kInteger4: return push({.kind = Kind::kInteger, .integer = static_cast<int32_t>(operand)});
      case kPut1:
      case kPut4: return remember(operand);
      case kGet1:
      case kGet4: return recall(operand);
      default: return fail(Code::kData, "the pickle has the instruction {:#04x}, which dtrain does not support", code);
    }
  }

  std::string_view rest_;
  Pickle pickle_;
  std::vector<Id> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint64_t, Id> memo_;
};

Result<Pickle> Pickle::parse(std::string_view file) {
  if (file.size() < 2 || file[0] != '\x80')
    return fail(Code::kData, "the data are not a pickle of protocol 2 or later");
  return PickleMachine(file).run();
}

const Pickle::Value* Pickle::find(const Value& dictionary, std::string_view key) const {
  if (dictionary.kind != Value::Kind::kDictionary) return nullptr;
  for (size_t i = 0; i + 1 < dictionary.items.size(); i += 2) {
    const Value& name = values_[dictionary.items[i]];
    if (name.kind == Value::Kind::kBytes && name.bytes == key) return &values_[dictionary.items[i + 1]];
  }
  return nullptr;
}

Result<PickledBytes> byte_array(const Pickle& pickle, const Pickle::Value& value) {
  using Kind = Pickle::Value::Kind;
  const auto item = [&](const Pickle::Value& of, size_t i) {
    return i < of.items.size() ? &pickle[of.items[i]] : nullptr;
  };
  // The state of an array is (version, shape, type, whether the order is column-major, bytes); the arguments of a
  // type's call are ("u1", ...).
  const Pickle::Value* state = value.kind == Kind::kObject ? item(value, 2) : nullptr;
  const Pickle::Value* shape = state != nullptr ? item(*state, 1) : nullptr;
  const Pickle::Value* type = state != nullptr ? item(*state, 2) : nullptr;
  const Pickle::Value* by_columns = state != nullptr ? item(*state, 3) : nullptr;
  const Pickle::Value* bytes = state != nullptr ? item(*state, 4) : nullptr;
  const Pickle::Value* call = type != nullptr ? item(*type, 1) : nullptr;
  const Pickle::Value* type_name = call != nullptr ? item(*call, 0) : nullptr;
  const bool is_array = bytes != nullptr && bytes->kind == Kind::kBytes && by_columns->kind == Kind::kInteger &&
                        by_columns->integer == 0 && type_name != nullptr && type_name->bytes == "u1" &&
                        shape->items.size() == 2;
  if (!is_array) return fail(Code::kData, "the pickle has no two-dimensional array of bytes");
  PickledBytes array{.rows = item(*shape, 0)->integer, .columns = item(*shape, 1)->integer, .bytes = bytes->bytes};
  const auto size = static_cast<int64_t>(array.bytes.size());
  const bool fits = array.rows > 0 && array.columns > 0 && array.rows <= size / array.columns;
  if (!fits || array.rows * array.columns != size) {
    return fail(Code::kData, "the pickle's array should have {} x {} bytes, but has {}", array.rows, array.columns,
                size);
  }
  return array;
}

}  // namespace dtrain::data
