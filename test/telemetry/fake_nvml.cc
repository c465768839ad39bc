// A library with the functions of NVML that dtrain calls, which the tests load in its place. It knows one GPU, of the
// bus id 0000:3b:00.0, which is busy for 75 % of the time. The test sets what the functions return.
namespace {

using Device = void*;
struct Utilization {
  unsigned gpu, memory;
};
struct Memory {
  unsigned long long total, free, used;
};
int result = 0, init_result = 0, users = 0;
int the_gpu = 0;

bool equal(const char* a, const char* b) {
  for (; *a != 0 && *a == *b; a++, b++)
    ;
  return *a == *b;
}

}  // namespace

extern "C" {
// Of nvmlInit, of the other functions; 0: success.
void fake_nvml_returns(int from_init, int from_others) {
  init_result = from_init;
  result = from_others;
}
// Calls of nvmlInit that succeeded, less those of nvmlShutdown.
int fake_nvml_users() {
  return users;
}

int nvmlInit_v2() {
  if (init_result == 0) users++;
  return init_result;
}
int nvmlShutdown() {
  users--;
  return 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* id, Device* device) {
  constexpr int kNotFound = 6;
  if (result != 0) return result;
  *device = &the_gpu;
  return equal(id, "0000:3B:00.0") ? 0 : kNotFound;
}
int nvmlDeviceGetUtilizationRates(Device device, Utilization* use) {
  *use = {75, 10};
  return device == &the_gpu ? result : 1;
}
int nvmlDeviceGetMemoryInfo(Device, Memory* memory) {
  *memory = {1 << 30, 3 << 28, 1 << 28};
  return result;
}
#ifndef DTRAIN_OLD_NVML
int nvmlDeviceGetPowerUsage(Device, unsigned* milliwatts) {
  *milliwatts = 350'500;
  return result;
}
int nvmlDeviceGetTemperature(Device, int sensor, unsigned* celsius) {
  *celsius = 61;
  return sensor == 0 ? result : 1;
}
#endif
}
