// Short trainings of lenet by the built program on pictures made here, and what weights they end with.
#pragma once

#include <string>
#include <vector>

#include "support/temp_dir.h"
#include "tensor/ndarray_file.h"

namespace dtrain::test {

// MNIST's files with these pictures in this order: noise with a bar where the label, number % 10, says.
void write_mnist(const std::string& directory, const std::vector<size_t>& numbers);

// Trains one epoch on the data in `name` of the folder, in the order of the files; the weights that it saved. `more`:
// flags of the command line, the batch's size among them. REQUIREs that it ends well.
std::vector<NamedArray> train_lenet(const TempDir& dir, const std::string& name, const std::vector<std::string>& more);

// |a - b| / |b| over all arrays.
double relative_difference(const std::vector<NamedArray>& a, const std::vector<NamedArray>& b);
bool same_bits(const std::vector<NamedArray>& a, const std::vector<NamedArray>& b);

}  // namespace dtrain::test
