// A network learns real images up to a given accuracy.
#pragma once

#include "images.h"
#include "learner.h"

namespace dtrain::gpu {

struct Lesson {
  std::string network;
  int64_t height = 28, width = 28;  // the central part of the images
  int64_t batch = 64;
  int epochs = 1;
  double rate = 0.05;
  float mean = 0, scale = 1;  // (pixel - mean) * scale
  optim::OptimizerSpec optimizer = {};
  // The accuracies to reach: that of the last epoch's images during training, and that of all images afterwards, by
  // inference with the moving statistics.
  double training_accuracy = 0, inference_accuracy = 0;
};

struct Progress {
  std::vector<double> training_accuracy;  // by epoch
  double inference_accuracy = 0;
};

// `options` needs the type and the threads; the rest is filled in from the lesson. Batches are drawn again in each
// epoch from the seed 1. The last images of an epoch are left out if they do not fill a batch.
Result<Progress> learn(exec::Backend& backend, const Lesson& lesson, const LabeledImages& images,
                       exec::Options options);

// The lessons of the stage train.
Lesson mnist_lesson();
Lesson cifar_lesson();

}  // namespace dtrain::gpu
