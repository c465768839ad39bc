// cudaStream_t without CUDA's headers, for the interfaces of kernels. The same type as in <driver_types.h>.
#pragma once

struct CUstream_st;
using cudaStream_t = CUstream_st*;
