// Combines lambdas into a visitor for a variant: std::visit(Overloaded{[](A) {...}, [](B) {...}}, value).
#pragma once

namespace dtrain {

template <class... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};
template <class... Visitors>
Overloaded(Visitors...) -> Overloaded<Visitors...>;

}  // namespace dtrain
