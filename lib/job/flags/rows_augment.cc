// The flags of augmentation: what is done to an image before it becomes an array of numbers.
#include "job/flags/rows.h"

namespace dtrain::job {

namespace {

std::vector<Row> size_rows() {
  return {
      {.name = "resize",
       .value = "N",
       .help = "training pictures: the shorter edge becomes N first",
       .bind = DT_FIELD(Flags, job.augment.resize, "off"),
       .min = 0,
       .max = kImageEdgeMax,
       .scope = Scope::kJob},
      {.name = "val-resize",
       .value = "N",
       .help = "the same for validation",
       .bind = DT_FIELD(Flags, job.augment.val_resize, "off"),
       .min = 0,
       .max = kImageEdgeMax,
       .scope = Scope::kJob},
      {.name = "inter-method",
       .value = "M",
       .help = "how sizes change: 0 nearest, 1 bilinear, 2 cubic, 3 area, 4 lanczos, 9 by the size, 10 drawn (for "
               "validation 1)",
       .bind = DT_FIELD(Flags, job.augment.inter_method),
       .choices = {"0", "1", "2", "3", "4", "9", "10"},
       .min = 0,
       .max = 10,
       .scope = Scope::kJob},
  };
}

std::vector<Row> crop_rows() {
  return {
      {.name = "random-resized-crop",
       .help = "crop a part of the area, of a drawn shape, and resize it",
       .bind = DT_FIELD(Flags, job.augment.random_resized_crop),
       .scope = Scope::kJob},
      {.name = "min-random-area",
       .value = "X",
       .help = "that part, at least",
       .bind = DT_FIELD(Flags, job.augment.min_random_area),
       .min = 0,
       .max = 1,
       .scope = Scope::kJob},
      {.name = "max-random-area",
       .value = "X",
       .help = "at most",
       .bind = DT_FIELD(Flags, job.augment.max_random_area),
       .min = 0,
       .max = 1,
       .scope = Scope::kJob},
      {.name = "min-crop-size",
       .value = "N",
       .help = "crop a square with a drawn edge, and resize it: its edge, at least",
       .bind = DT_FIELD(Flags, job.augment.min_crop_size),
       .min = -1,
       .max = kImageEdgeMax,
       .scope = Scope::kJob},
      {.name = "max-crop-size",
       .value = "N",
       .help = "at most",
       .bind = DT_FIELD(Flags, job.augment.max_crop_size),
       .min = -1,
       .max = kImageEdgeMax,
       .scope = Scope::kJob},
  };
}

std::vector<Row> angle_rows() {
  return {
      {.name = "max-random-rotate-angle",
       .value = "N",
       .help = "pictures are rotated by -N to N degrees, drawn",
       .bind = DT_FIELD(Flags, job.augment.max_random_rotate_angle),
       .min = 0,
       .max = 360,
       .scope = Scope::kJob},
      {.name = "rotate",
       .value = "N",
       .help = "by N degrees instead",
       .bind = DT_FIELD(Flags, job.augment.rotate, "off"),
       .min = 0,
       .max = 360,
       .scope = Scope::kJob},
      {.name = "rotate-list",
       .value = "N,N",
       .help = "by one of these instead, drawn",
       .bind = DT_FIELD(Flags, job.augment.rotate_list, "none"),
       .min = -360,
       .max = 360,
       .scope = Scope::kJob},
      {.name = "max-random-shear-ratio",
       .value = "X",
       .help = "sheared by -X to X",
       .bind = DT_FIELD(Flags, job.augment.max_random_shear_ratio),
       .min = 0,
       .max = 100,
       .scope = Scope::kJob},
  };
}

std::vector<Row> scale_rows() {
  return {
      {.name = "min-random-aspect-ratio",
       .value = "X",
       .help = "stretched by X to --max-random-aspect-ratio",
       .bind = DT_FIELD(Flags, job.augment.min_random_aspect_ratio, "none"),
       .min = 0,
       .max = 100,
       .scope = Scope::kJob},
      {.name = "max-random-aspect-ratio",
       .value = "X",
       .help = "without --min-random-aspect-ratio: by 1-X to 1+X",
       .bind = DT_FIELD(Flags, job.augment.max_random_aspect_ratio),
       .min = 0,
       .max = 100,
       .scope = Scope::kJob},
      {.name = "min-random-scale",
       .value = "X",
       .help = "scaled, at least by X",
       .bind = DT_FIELD(Flags, job.augment.min_random_scale),
       .min = 0,
       .max = 100,
       .scope = Scope::kJob},
      {.name = "max-random-scale",
       .value = "X",
       .help = "at most",
       .bind = DT_FIELD(Flags, job.augment.max_random_scale),
       .min = 0,
       .max = 100,
       .scope = Scope::kJob},
      {.name = "min-img-size",
       .value = "N",
       .help = "edges of what is rotated, sheared or scaled, at least",
       .bind = DT_FIELD(Flags, job.augment.min_img_size),
       .min = 0,
       .max = 1e10,
       .scope = Scope::kJob},
      {.name = "max-img-size",
       .value = "N",
       .help = "at most",
       .bind = DT_FIELD(Flags, job.augment.max_img_size),
       .default_text = "1e10",
       .min = 0,
       .max = 1e10,
       .scope = Scope::kJob},
  };
}

std::vector<Row> hsl_rows() {
  return {
      {.name = "max-random-h",
       .value = "N",
       .help = "the hue (0 to 180) moves by -N to N, drawn",
       .bind = DT_FIELD(Flags, job.augment.max_random_h),
       .min = 0,
       .max = 255,
       .scope = Scope::kJob},
      {.name = "max-random-s",
       .value = "N",
       .help = "the saturation (0 to 255)",
       .bind = DT_FIELD(Flags, job.augment.max_random_s),
       .min = 0,
       .max = 255,
       .scope = Scope::kJob},
      {.name = "max-random-l",
       .value = "N",
       .help = "the lightness (0 to 255)",
       .bind = DT_FIELD(Flags, job.augment.max_random_l),
       .min = 0,
       .max = 255,
       .scope = Scope::kJob},
  };
}

std::vector<Row> color_rows() {
  return {
      {.name = "brightness",
       .value = "X",
       .help = "colours times 1-X to 1+X, drawn",
       .bind = DT_FIELD(Flags, job.augment.brightness),
       .min = 0,
       .max = 1000,
       .scope = Scope::kJob},
      {.name = "contrast",
       .value = "X",
       .help = "their distance from the mean gray",
       .bind = DT_FIELD(Flags, job.augment.contrast),
       .min = 0,
       .max = 1000,
       .scope = Scope::kJob},
      {.name = "saturation",
       .value = "X",
       .help = "their distance from their own gray",
       .bind = DT_FIELD(Flags, job.augment.saturation),
       .min = 0,
       .max = 1000,
       .scope = Scope::kJob},
      {.name = "pca-noise",
       .value = "X",
       .help = "noise along the principal components of ImageNet's colours: its standard deviation",
       .bind = DT_FIELD(Flags, job.augment.pca_noise),
       .min = 0,
       .max = 1000,
       .scope = Scope::kJob},
      {.name = "max-random-contrast",
       .value = "X",
       .help = "numbers after mean and std times 1-X to 1+X, drawn",
       .bind = DT_FIELD(Flags, job.augment.max_random_contrast),
       .min = 0,
       .max = 1000,
       .scope = Scope::kJob},
      {.name = "max-random-illumination",
       .value = "X",
       .help = "then -X to X, as a pixel's value, is added",
       .bind = DT_FIELD(Flags, job.augment.max_random_illumination),
       .min = 0,
       .max = kFactorMax,
       .scope = Scope::kJob},
  };
}

std::vector<Row> bundle_rows() {
  return {
      {.name = "aug-level",
       .value = "1|2|3",
       .help = "bundle: 1 random crop and mirror, 2 also h, s, l 36, 50, 50, 3 also rotate 10, shear .1, aspect .25; "
               "flags given beside it win",
       .bind = DT_FIELD(Flags, job.augment.aug_level, "off"),
       .choices = {"off", "1", "2", "3"},
       .min = 0,
       .max = 3,
       .scope = Scope::kJob},
      {.name = "use-imagenet-data-augmentation",
       .help = "bundle: rgb-std, resized crops of area .08 to 1, mirror, colours, pca-noise; flags given beside it win",
       .bind = DT_FIELD(Flags, job.augment.imagenet_augmentation),
       .scope = Scope::kJob},
  };
}

}  // namespace

std::vector<Row> augment_rows() {
  std::vector<Row> rows;
  for (const auto& part : {size_rows, crop_rows, angle_rows, scale_rows, hsl_rows, color_rows, bundle_rows}) {
    for (Row& row : part()) rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace dtrain::job
