// The flags of augmentation: what is done to an image before it becomes an array of floats.
#include "job/flags/flags.h"
#include "job/flags/rows.h"

namespace dtrain::job {

namespace {

std::vector<Row> pixel_rows() {
  return {
      {.name = "rgb-mean",
       .value = "R,G,B",
       .help = "mean of each channel, subtracted from the pixels",
       .bind = DT_FIELD(Flags, job.augment.rgb_mean, "auto"),
       .default_text = "123.68,116.779,103.939; 0 for mnist",
       .min = -kFactorMax,
       .max = kFactorMax,
       .scope = Scope::kJob},
      {.name = "rgb-std",
       .value = "R,G,B",
       .help = "standard deviation of each channel, by which the pixels are divided",
       .bind = DT_FIELD(Flags, job.augment.rgb_std, "auto"),
       .default_text = "1,1,1",
       .min = 0,
       .max = kFactorMax,
       .scope = Scope::kJob},
      {.name = "mean-img",
       .value = "FILE",
       .help = "mean image, subtracted from each image; created if it does not exist; a leading {data-dir}/ is "
               "replaced by the value of --data-dir",
       .bind = DT_FIELD(Flags, data.mean_img, "none")},
      {.name = "scale",
       .value = "X",
       .help = "factor by which the pixels are multiplied after the mean is subtracted",
       .bind = DT_FIELD(Flags, job.augment.scale, "auto"),
       .default_text = "1; 1/255 for mnist",
       .min = -kFactorMax,
       .max = kFactorMax,
       .scope = Scope::kJob},
      {.name = "random-crop",
       .help = "crop training images at a random position",
       .bind = DT_FIELD(Flags, job.augment.random_crop),
       .scope = Scope::kJob},
      {.name = "random-mirror",
       .help = "mirror training images with probability 1/2",
       .bind = DT_FIELD(Flags, job.augment.random_mirror),
       .scope = Scope::kJob},
      {.name = "mirror",
       .help = "mirror every image",
       .bind = DT_FIELD(Flags, job.augment.mirror),
       .scope = Scope::kJob},
      {.name = "pad-size",
       .value = "N",
       .help = "width of a border that is added to training images before the crop",
       .bind = DT_FIELD(Flags, job.augment.pad_size),
       .min = 0,
       .max = kImageEdgeMax,
       .scope = Scope::kJob},
      {.name = "fill-value",
       .value = "0..255",
       .help = "pixel value of borders and of areas that rotation and shear leave empty",
       .bind = DT_FIELD(Flags, job.augment.fill_value),
       .min = 0,
       .max = 255,
       .scope = Scope::kJob},
  };
}

std::vector<Row> size_rows() {
  return {
      {.name = "resize",
       .value = "N",
       .help = "how to resize training images before any other change: N (the shorter edge becomes N pixels), fit "
               "(scale so that the crop shows nearly all of the image) or off",
       .bind = DT_FIELD(Flags, job.augment.resize, "auto"),
       .default_text = "fit for class directories, otherwise off",
       .min = 0,
       .max = kImageEdgeMax,
       .scope = Scope::kJob,
       .suggestions = {"fit", "off"}},
      {.name = "val-resize",
       .value = "N",
       .help = "how to resize validation images before the crop: N (the shorter edge becomes N pixels), fit (scale so "
               "that the crop shows nearly all of the image) or off",
       .bind = DT_FIELD(Flags, job.augment.val_resize, "auto"),
       .default_text = "fit for class directories, otherwise off",
       .min = 0,
       .max = kImageEdgeMax,
       .scope = Scope::kJob,
       .suggestions = {"fit", "off"}},
      {.name = "inter-method",
       .value = "M",
       .help = "interpolation method for resizing: 0 (nearest), 1 (bilinear), 2 (cubic), 3 (area), 4 (Lanczos), 9 "
               "(cubic if the image grows, area if it shrinks, otherwise bilinear) or 10 (drawn at random for each "
               "training image; bilinear for validation images)",
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
       .help = "crop a random part of the image with a random aspect ratio, and resize it",
       .bind = DT_FIELD(Flags, job.augment.random_resized_crop),
       .scope = Scope::kJob},
      {.name = "min-random-area",
       .value = "X",
       .help = "with --random-resized-crop: smallest fraction of the image's area to crop",
       .bind = DT_FIELD(Flags, job.augment.min_random_area),
       .min = 0,
       .max = 1,
       .scope = Scope::kJob},
      {.name = "max-random-area",
       .value = "X",
       .help = "with --random-resized-crop: largest fraction of the image's area to crop",
       .bind = DT_FIELD(Flags, job.augment.max_random_area),
       .min = 0,
       .max = 1,
       .scope = Scope::kJob},
      {.name = "min-crop-size",
       .value = "N",
       .help = "crop a random square with an edge of at least N pixels, and resize it; -1 means off",
       .bind = DT_FIELD(Flags, job.augment.min_crop_size),
       .min = -1,
       .max = kImageEdgeMax,
       .scope = Scope::kJob},
      {.name = "max-crop-size",
       .value = "N",
       .help = "crop a random square with an edge of at most N pixels, and resize it; -1 means off",
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
       .help = "rotate training images by a random angle from -N to N degrees",
       .bind = DT_FIELD(Flags, job.augment.max_random_rotate_angle),
       .min = 0,
       .max = 360,
       .scope = Scope::kJob},
      {.name = "rotate",
       .value = "N",
       .help = "rotate all training images by N degrees, instead of by a random angle",
       .bind = DT_FIELD(Flags, job.augment.rotate, "off"),
       .min = 0,
       .max = 360,
       .scope = Scope::kJob},
      {.name = "rotate-list",
       .value = "N,N",
       .help = "rotate each training image by an angle that is chosen at random from this list, in degrees",
       .bind = DT_FIELD(Flags, job.augment.rotate_list, "none"),
       .min = -360,
       .max = 360,
       .scope = Scope::kJob},
      {.name = "max-random-shear-ratio",
       .value = "X",
       .help = "shear training images by a random ratio from -X to X",
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
       .help = "change the aspect ratio by a random factor from X to --max-random-aspect-ratio",
       .bind = DT_FIELD(Flags, job.augment.min_random_aspect_ratio, "none"),
       .min = 0,
       .max = 100,
       .scope = Scope::kJob},
      {.name = "max-random-aspect-ratio",
       .value = "X",
       .help =
           "with --min-random-aspect-ratio: largest factor for the aspect ratio; without it, the factor is from 1-X "
           "to 1+X",
       .bind = DT_FIELD(Flags, job.augment.max_random_aspect_ratio),
       .min = 0,
       .max = 100,
       .scope = Scope::kJob},
      {.name = "min-random-scale",
       .value = "X",
       .help = "smallest random factor for the size of an image",
       .bind = DT_FIELD(Flags, job.augment.min_random_scale),
       .min = 0,
       .max = 100,
       .scope = Scope::kJob},
      {.name = "max-random-scale",
       .value = "X",
       .help = "largest random factor for the size of an image",
       .bind = DT_FIELD(Flags, job.augment.max_random_scale),
       .min = 0,
       .max = 100,
       .scope = Scope::kJob},
      {.name = "min-img-size",
       .value = "N",
       .help = "lower limit for the width and height of an image after rotation, shear and scaling",
       .bind = DT_FIELD(Flags, job.augment.min_img_size),
       .min = 0,
       .max = 1e10,
       .scope = Scope::kJob},
      {.name = "max-img-size",
       .value = "N",
       .help = "upper limit for the width and height of an image after rotation, shear and scaling",
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
       .help = "change the hue (0 to 180) by a random number from -N to N",
       .bind = DT_FIELD(Flags, job.augment.max_random_h),
       .min = 0,
       .max = 255,
       .scope = Scope::kJob},
      {.name = "max-random-s",
       .value = "N",
       .help = "change the saturation (0 to 255) by a random number from -N to N",
       .bind = DT_FIELD(Flags, job.augment.max_random_s),
       .min = 0,
       .max = 255,
       .scope = Scope::kJob},
      {.name = "max-random-l",
       .value = "N",
       .help = "change the lightness (0 to 255) by a random number from -N to N",
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
       .help = "multiply the colors by a random factor from 1-X to 1+X",
       .bind = DT_FIELD(Flags, job.augment.brightness),
       .min = 0,
       .max = 1000,
       .scope = Scope::kJob},
      {.name = "contrast",
       .value = "X",
       .help =
           "multiply the difference between each color and the image's mean gray by a random factor from 1-X to 1+X",
       .bind = DT_FIELD(Flags, job.augment.contrast),
       .min = 0,
       .max = 1000,
       .scope = Scope::kJob},
      {.name = "saturation",
       .value = "X",
       .help = "multiply the difference between each color and the gray value of its pixel by a random factor from 1-X "
               "to 1+X",
       .bind = DT_FIELD(Flags, job.augment.saturation),
       .min = 0,
       .max = 1000,
       .scope = Scope::kJob},
      {.name = "pca-noise",
       .value = "X",
       .help = "standard deviation of random noise along the principal components of ImageNet's colors",
       .bind = DT_FIELD(Flags, job.augment.pca_noise),
       .min = 0,
       .max = 1000,
       .scope = Scope::kJob},
      {.name = "max-random-contrast",
       .value = "X",
       .help = "multiply the normalized pixel values by a random factor from 1-X to 1+X",
       .bind = DT_FIELD(Flags, job.augment.max_random_contrast),
       .min = 0,
       .max = 1000,
       .scope = Scope::kJob},
      {.name = "max-random-illumination",
       .value = "X",
       .help = "change the brightness of the normalized image by a random number from -X to X, on the scale of gray "
               "levels from 0 to 255",
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
       .help = "set several flags of augmentation at once: 1 crops and mirrors at random; 2 also changes the hue (by "
               "up to 36), the saturation (50) and the lightness (50); 3 also rotates (by up to 10 degrees), shears "
               "(0.1) and changes the aspect ratio (0.25); flags that are given explicitly override these values",
       .bind = DT_FIELD(Flags, job.augment.aug_level, "off"),
       .choices = {"off", "1", "2", "3"},
       .min = 0,
       .max = 3,
       .scope = Scope::kJob},
      {.name = "use-imagenet-data-augmentation",
       .help = "set several flags at once, as is usual for ImageNet: --rgb-std, random resized crops of 0.08 to 1 of "
               "the image's area, random mirroring, color changes and --pca-noise; flags that are given explicitly "
               "override these values",
       .bind = DT_FIELD(Flags, job.augment.imagenet_augmentation),
       .scope = Scope::kJob},
  };
}

}  // namespace

std::vector<Row> augment_rows() {
  std::vector<Row> rows;
  for (const auto& part :
       {pixel_rows, size_rows, crop_rows, angle_rows, scale_rows, hsl_rows, color_rows, bundle_rows}) {
    for (Row& row : part()) rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace dtrain::job
