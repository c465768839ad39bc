// A network learns real pictures, to an accuracy.
#pragma once

#include "learner.h"
#include "pictures.h"

namespace dtrain::gpu {

struct Lesson {
  std::string network;
  int64_t height = 28, width = 28;  // the central part of the pictures
  int64_t batch = 64;
  int epochs = 1;
  double rate = 0.05;
  float mean = 0, scale = 1;  // (pixel - mean) * scale
  optim::OptimizerSpec optimizer = {};
  // What must be reached: of the last epoch's images as they came, and of all images by the network as it is then, with
  // its moving statistics.
  double training_accuracy = 0, inference_accuracy = 0;
};

struct Progress {
  std::vector<double> training_accuracy;  // by epoch
  double inference_accuracy = 0;
};

// options: the type and threads; what the lesson says is filled in. Batches are drawn anew each epoch from the seed 1,
// the last images of an epoch that fill none are left out.
Result<Progress> learn(exec::Backend& backend, const Lesson& lesson, const Pictures& pictures, exec::Options options);

// What the stage train teaches.
Lesson mnist_lesson();
Lesson cifar_lesson();

}  // namespace dtrain::gpu
