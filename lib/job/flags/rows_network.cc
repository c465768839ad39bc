// The flags of the network and of fine-tuning.
#include "job/flags/flags.h"
#include "job/flags/rows.h"

namespace dtrain::job {

namespace {

std::vector<std::string> initializer_names() {
  return {"default", "xavier", "msra", "msraprelu", "orthogonal", "bilinear", "uniform", "normal", "one", "zero"};
}

// Checks the name of the rule; its parameters in parentheses are checked when it is used.
Binding<Flags> initializer() {
  Binding<Flags> binding = DT_FIELD(Flags, job.network.initializer);
  binding.set = [plain = binding.set](Flags& flags, std::string_view text) -> Result<> {
    DT_TRY_VOID(check_choice(text.substr(0, text.find('(')), initializer_names(), {}));
    return plain(flags, text);
  };
  return binding;
}

std::vector<Row> which_network_rows() {
  return {
      {.name = "network",
       .value = "NAME|FILE",
       .help =
           "network to train: mlp, lenet, lenet-stn, 3conv (or small), cross (or dfnmr), alexnet, vgg, googlenet, "
           "inception-bn, inception-bn-28-small, inception-bn-full, inception-v3, resnet-28-small, resnet (or "
           "resnet-v2), resnet-v1, resnet-v1.5, resnet-zscore or resnext; append a depth (resnet-50) or an older "
           "version (inception-bn@v0.7, resnet@mxnet-g). A symbol file of MXNet (FILE-symbol.json) is also accepted",
       .brief = "network to train, such as lenet or inception-bn",
       .bind = DT_FIELD(Flags, job.network.network),
       .scope = Scope::kJob,
       .suggestions = {"mlp", "lenet", "lenet-stn", "3conv", "cross", "alexnet", "vgg", "googlenet", "inception-bn",
                       "inception-bn-28-small", "inception-bn-full", "inception-v3", "resnet-28-small", "resnet",
                       "resnet-v1", "resnet-v1.5", "resnet-zscore", "resnext"}},
      {.name = "num-layers",
       .aliases = {"--depth"},
       .value = "N",
       .help = "number of layers",
       .bind = DT_FIELD(Flags, job.network.num_layers, "auto"),
       .default_text = "from the network's name or the preset",
       .min = 0,
       .max = kLayersMax,
       .scope = Scope::kJob},
      {.name = "num-classes",
       .value = "N",
       .help = "number of classes",
       .bind = DT_FIELD(Flags, job.network.num_classes, "auto"),
       .default_text = "by data set",
       .min = 0,
       .max = kClassesMax,
       .scope = Scope::kJob},
      {.name = "image-shape",
       .aliases = {"--image_shape",
                   Alias("--data-shape", [](std::string_view edge) { return fmt::format("3,{},{}", edge, edge); })},
       .value = "C,H,W",
       .help = "channels, height and width of an image; N alone means 3,N,N, as --data-shape N does",
       .brief = "channels, height and width of an image",
       .bind = image_shape(DT_FIELD(Flags, job.network.image_shape, "auto")),
       .default_text = "by data set",
       .min = 1,
       .max = kEdgeMax,
       .scope = Scope::kJob},
  };
}

std::vector<Row> form_rows() {
  return {
      {.name = "bn-mom",
       .value = "X",
       .help = "momentum of the moving statistics of batch normalization",
       .bind = DT_FIELD(Flags, job.network.bn_momentum),
       .min = 0,
       .max = 1,
       .scope = Scope::kJob},
      {.name = "widen-factor",
       .value = "K",
       .help = "with --network cross: multiply the width of the layers by K",
       .bind = DT_FIELD(Flags, job.network.widen_factor),
       .min = 1,
       .max = 64,
       .scope = Scope::kJob},
      {.name = "num-group",
       .value = "N",
       .help = "with --network resnext: number of groups in the grouped convolutions",
       .bind = DT_FIELD(Flags, job.network.num_group),
       .min = 1,
       .max = 1024,
       .scope = Scope::kJob},
      {.name = "batch-norm",
       .help = "with --network vgg: add a batch norm after each convolution",
       .bind = DT_FIELD(Flags, job.network.batch_norm),
       .scope = Scope::kJob},
      {.name = "add-stn",
       .aliases = {"--add_stn"},
       .help = "with --network lenet: add a spatial transformer before the network (the same as --network lenet-stn)",
       .bind = DT_FIELD(Flags, job.network.add_stn),
       .scope = Scope::kJob},
      {.name = "smooth-alpha",
       .value = "X",
       .help = "label smoothing: the fraction of the target probability that is spread over the other classes",
       .bind = DT_FIELD(Flags, job.network.smooth_alpha),
       .min = 0,
       .max = 1,
       .scope = Scope::kJob},
      {.name = "initializer",
       .value = "RULE",
       .help = "how to draw the initial weights: default (by network), xavier, msra (or msraprelu), orthogonal, "
               "bilinear, uniform, normal, one or zero, with parameters in parentheses as in xavier(uniform,in,2.34)",
       .bind = initializer(),
       .scope = Scope::kJob,
       .suggestions = initializer_names()},
  };
}

std::vector<Row> fine_tuning_rows() {
  return {
      {.name = "layer-before-fullc",
       .value = "LAYER",
       .help = "fine-tuning: the last layer to keep, after which the new last layer is added; needs --pretrained-model",
       .bind = DT_FIELD(Flags, job.network.layer_before_fullc, "none"),
       .default_text = "the layer before the last fully connected one",
       .scope = Scope::kJob},
      {.name = "lr-mult",
       .value = "PATTERN=X,...",
       .help = "multiply the learning rate of the layers or parameters whose names match a pattern, as in "
               "'*=0.1,fc=1'; if several patterns match, the last one counts; the factor 0 freezes the values; * "
               "matches any text, and ? any character",
       .bind = DT_FIELD(Flags, job.network.lr_mult, "none"),
       .scope = Scope::kJob},
  };
}

}  // namespace

std::vector<Row> network_rows() {
  std::vector<Row> all = which_network_rows();
  for (auto* const rows : {form_rows, fine_tuning_rows}) {
    for (Row& row : rows()) all.push_back(std::move(row));
  }
  return all;
}

}  // namespace dtrain::job
